package main

import "testing"

func TestServerAddress(t *testing.T) {
	t.Parallel()
	const token = "0123456789"
	for _, c := range []struct{ named, token, want string }{
		{"http://127.0.0.1:4100", "", "http://127.0.0.1:4100"},
		{"127.0.0.1:4100", "", "http://127.0.0.1:4100"},
		{"localhost:4100", "", "http://localhost:4100"},
		{"http://[::1]:4100", "", "http://[::1]:4100"},
		{"https://mill.example", token, "https://mill.example"},
		{"10.0.0.7:4100", token, "http://10.0.0.7:4100"},
		// The token of the local service is for this machine alone.
		{"https://mill.example", "", ""},
		{"10.0.0.7:4100", "", ""},
		{"http://localhost.example", "", ""},
		{"http://127.0.0.1@mill.example", "", ""},
		// No addresses.
		{"ftp://127.0.0.1", token, ""},
		{"http://", token, ""},
		{"one two", token, ""},
		{"http://%zz", token, ""},
	} {
		got, err := serverAddress(c.named, c.token)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q with the token %q: got %q, %v; want %q", c.named, c.token, got, err, c.want)
		}
	}
}
