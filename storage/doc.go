// Package storage keeps the service's state in one SQLite file behind the store
// interfaces that the engine declares. It knows SQL and the domain's types; it knows
// no processes, no chat platform and no HTTP, and it decides nothing: guards and
// transitions are the engine's, this package makes them atomic.
//
// One connection writes and a few only read (WAL). Whatever writes is handed to one
// goroutine, which puts all that is waiting into a single SQLite transaction with a
// savepoint for each, so two hundred busy executions cost little more than one.
// Methods make the transaction; small functions take it and compose.
package storage
