// Package web is the HTTP front-end: the JSON API, its event streams and the
// service's health and metrics. It turns requests into calls of the engine and the
// engine's answers into HTTP, and knows neither storage nor tmux nor chat platforms.
package web
