package main

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/cmd/threadmill/config"
)

func TestGreet(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	self, err := os.Executable()
	must(t, err)
	var out strings.Builder
	a := &app{streams: streams{out: &out}, config: "mill.yaml"}
	s := &server{a: a, listen: ln, cfg: &config.Config{DataDir: "/data", Path: "/etc/mill.yaml"}}
	s.greet(api.Link{URL: "http://mill/#token=t", ExpiresAt: time.Now().Add(time.Minute)})
	for _, want := range []string{
		"  Configuration  /etc/mill.yaml\n", "  Data           /data\n", "http://" + ln.Addr().String() + "/api (token in /data/api-token)",
		"\n  http://mill/#token=t\n", "\n  " + self + " --config mill.yaml ps\n", "(" + self + " --config mill.yaml link makes another)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the greeting does not say %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "%!") {
		t.Errorf("the greeting is misprinted:\n%s", out.String())
	}
}
