// Package engine is the heart of the service: what executions, tasks, messages and
// approvals are, which changes they may go through, and who does what next. It owns
// the interfaces that it needs (a store, a host) and knows no chat platform, no SQL
// and no HTTP.
//
// The store is the queue: everything that somebody asked for is a row before
// anything happens, and each step is a guarded change of a row. Channels in here are
// only bells that say "look again", so losing one loses nothing.
package engine
