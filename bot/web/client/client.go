// Package client calls the HTTP API of a running service, for the command line and
// for tests. It knows the API's types and nothing of how the service answers.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/threadmill/threadmill/bot/web/api"
	"github.com/threadmill/threadmill/engine"
)

// ErrNoServer is wrapped by the error of a call that reached no service at all.
var ErrNoServer = errors.New("no Threadmill service answers")

const (
	dialTimeout = 5 * time.Second
	callTimeout = time.Minute // of a call with a JSON answer
	maxAnswer   = 256 << 20   // of JSON; a guard against a server that is not ours
)

// Client calls one service.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New returns a client of the service at baseURL, such as http://127.0.0.1:4100.
func New(baseURL, token string) *Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &Client{base: strings.TrimRight(baseURL, "/"), token: token, http: &http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true},
		// The token must not follow a redirect to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// WithTransport returns a client that sends its calls through rt.
func (c *Client) WithTransport(rt http.RoundTripper) *Client {
	h := *c.http
	h.Transport = rt
	return &Client{base: c.base, token: c.token, http: &h}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request.
type call struct {
	method string
	path   []string // escaped and joined with slashes
	query  url.Values
	body   any
	header http.Header
}

func get(path ...string) call { return call{method: http.MethodGet, path: path} }

func post(body any, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body}
}

func remove(path ...string) call { return call{method: http.MethodDelete, path: path} }

func (q call) with(query url.Values) call {
	q.query = query
	return q
}

// send makes the request. Whatever is not a success is an error.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	req, err := c.request(ctx, q)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, failure(resp)
	}
	return resp, nil
}

func (c *Client) request(ctx context.Context, q call) (*http.Request, error) {
	var body io.Reader
	if q.body != nil {
		b, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, c.url(q), body)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", c.base, err)
	}
	if q.header != nil {
		req.Header = q.header.Clone()
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func (c *Client) url(q call) string {
	var b strings.Builder
	b.WriteString(c.base)
	for _, p := range q.path {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	if len(q.query) > 0 {
		b.WriteString("?" + q.query.Encode())
	}
	return b.String()
}

// unreachable tells a service that is not there from a call that broke.
func (c *Client) unreachable(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w at %s: %w", ErrNoServer, c.base, op.Err)
	}
	return fmt.Errorf("call %s: %w", c.base, err)
}

// failure makes an engine.Error of an answer that is not a success.
func failure(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var body api.Error
	if json.Unmarshal(b, &body) != nil || body.Error == "" {
		return &engine.Error{Code: codeOf(resp.StatusCode), Message: "the service answered " + resp.Status}
	}
	return &engine.Error{Code: body.Code, Message: body.Error}
}

// codeOf classifies an answer that something between us and the service made.
func codeOf(status int) engine.Code {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return engine.CodeUnavailable
	case http.StatusNotFound:
		return engine.CodeNotFound
	case http.StatusUnauthorized:
		return engine.CodeUnauthorized
	case http.StatusForbidden:
		return engine.CodeForbidden
	}
	return engine.CodeInternal
}

// fetch makes a request and decodes the data of its answer.
func fetch[T any](ctx context.Context, c *Client, q call) (data T, meta api.Meta, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.send(ctx, q)
	if err != nil {
		return data, meta, err
	}
	defer resp.Body.Close()
	var body struct {
		Data T        `json:"data"`
		Meta api.Meta `json:"meta"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&body); err != nil {
		return data, meta, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return body.Data, body.Meta, nil
}

// fetchData is fetch for answers without meta.
func fetchData[T any](ctx context.Context, c *Client, q call) (T, error) {
	data, _, err := fetch[T](ctx, c, q)
	return data, err
}
