//go:build soak

package main

import "testing"

// TestSoakServeKilled is TestServeKilled at its full length.
func TestSoakServeKilled(t *testing.T) { surviveKills(t, 50, 20, 4000) }

// TestSoakKilledWhileStarting is TestServeKilledWhileStarting at its full length.
func TestSoakKilledWhileStarting(t *testing.T) { startUnderKills(t, 50, 10) }

// TestSoakKilledWhileCancelling is TestServeKilledWhileCancelling at its full length.
func TestSoakKilledWhileCancelling(t *testing.T) { cancelUnderKills(t, 30, 8) }
