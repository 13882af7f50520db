//go:build !linux

package runner_test

// onSmallDisk is for systems where a test can have a disk of its own.
func onSmallDisk(string) int { return 2 }
