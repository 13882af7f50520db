package redact

// Patterns shows what a Masker looks for.
func Patterns(values []string) []string { return patterns(values) }
