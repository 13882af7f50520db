package main

import (
	"cmp"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"
)

// produced is what the producer reports of itself.
type produced struct{ Seconds float64 }

// runProducer writes count chunks of size bytes, of 100-byte lines, to stdout, and
// how long that took to a file.
func runProducer(args []string) error {
	size, err1 := strconv.Atoi(args[0])
	count, err2 := strconv.Atoi(args[1])
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	line := strings.Repeat("0123456789", 9) + "abcdefghi\n"
	chunk := []byte(strings.Repeat(line, size/100))
	for err := error(nil); err == nil; time.Sleep(time.Millisecond) { // until it may begin
		_, err = os.Stat(args[2] + ".wait")
	}
	begun := time.Now()
	for range count {
		if _, err := os.Stdout.Write(chunk); err != nil {
			return err
		}
	}
	out, err := json.Marshal(produced{Seconds: time.Since(begun).Seconds()})
	if err != nil {
		return err
	}
	tmp := args[2] + ".tmp"
	if err := os.WriteFile(tmp, out, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, args[2])
}
