package config

import _ "embed"

//go:embed example.yaml
var example string

// Example returns the commented configuration that `threadmill init` writes. It loads
// as it stands and says the same as the defaults, as far as they can be said.
func Example() string { return example }
