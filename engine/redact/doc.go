// Package redact masks secret values in what a run writes. It is a leaf: it knows
// bytes and nothing of agents, files or chat.
package redact
