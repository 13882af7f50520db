package runner

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/threadmill/threadmill/engine/rundir"
)

const (
	// helloWait bounds how long a connection may take to say who it is.
	helloWait = 5 * time.Second
	// lastReply bounds how long a reply under way holds up the end.
	lastReply = time.Second
	// maxReplies is how many replies may wait for a client that does not read.
	maxReplies = 256
)

// server is the control socket: it reads commands and passes them on. It settles
// nothing itself.
type server struct {
	listener *net.UnixListener
	hello    func() rundir.Hello
	handle   func(cmd rundir.Command, answer func(rundir.Reply))
	ended    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func newServer(l *net.UnixListener, hello func() rundir.Hello, handle func(rundir.Command, func(rundir.Reply))) *server {
	s := &server{listener: l, hello: hello, handle: handle, conns: map[net.Conn]bool{}}
	s.ended.Go(s.accept)
	return s
}

// close removes the socket, hangs up once the replies under way are written, and waits.
func (s *server) close() {
	_ = s.listener.Close() // removes the file too
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		s.hangUp(c)
	}
	s.mu.Unlock()
	s.ended.Wait()
}

// hangUp ends a connection's reader now and its writer soon.
func (s *server) hangUp(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	_ = conn.SetWriteDeadline(time.Now().Add(lastReply))
}

func (s *server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.pause() // out of descriptors: some connection will end
			continue
		}
		if s.keep(conn) {
			s.ended.Go(func() { s.serve(conn) })
		}
	}
}

func (s *server) pause() {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func (s *server) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = true
	return true
}

func (s *server) drop(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

func (s *server) serve(conn *net.UnixConn) {
	defer s.drop(conn)
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 4<<10), rundir.MaxControlLine)
	if !s.greet(conn, lines) {
		return
	}
	p := newPeer(conn)
	defer p.close()
	for lines.Scan() {
		var cmd rundir.Command
		if err := json.Unmarshal(lines.Bytes(), &cmd); err != nil {
			p.answer(rundir.Reply{Code: rundir.CodeInvalid, Error: "a command is not understood: " + err.Error()})
			return
		}
		s.handle(cmd, p.answer)
	}
}

// greet shakes hands. Nobody but this user, or root, gets an answer at all.
func (s *server) greet(conn *net.UnixConn, lines *bufio.Scanner) bool {
	if uid, err := peerUID(conn); err != nil || uid != os.Geteuid() && uid != 0 {
		return false
	}
	_ = conn.SetDeadline(time.Now().Add(helloWait))
	var theirs rundir.Hello
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &theirs) != nil {
		return false
	}
	ours := s.hello()
	switch {
	case theirs.Version != rundir.Version:
		ours.Error = fmt.Sprintf("this runner speaks version %d of the contract, not %d", rundir.Version, theirs.Version)
	case theirs.ExecutionID != ours.ExecutionID:
		ours.Error = "this runner runs another execution"
	}
	b, err := json.Marshal(ours)
	if err == nil {
		_, err = conn.Write(append(b, '\n'))
	}
	return err == nil && ours.Error == "" && s.stay(conn)
}

// stay takes the time limit of the greeting away, unless the end has come meanwhile.
func (s *server) stay(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && conn.SetDeadline(time.Time{}) == nil
}

// peer writes replies to one connection, so that a client that does not read holds
// nobody up.
type peer struct {
	conn    net.Conn
	replies chan rundir.Reply
	ended   sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn, replies: make(chan rundir.Reply, maxReplies)}
	p.ended.Go(p.write)
	return p
}

// answer queues a reply. It never blocks: a client with that many unread ones has
// given up, and may ask again over a new connection.
func (p *peer) answer(r rundir.Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	select {
	case p.replies <- r:
	default:
		_ = p.conn.Close()
	}
}

func (p *peer) write() {
	for r := range p.replies {
		b, err := json.Marshal(r)
		if err == nil {
			_, err = p.conn.Write(append(b, '\n'))
		}
		if err != nil {
			_ = p.conn.Close() // ends the reader as well
		}
	}
}

func (p *peer) close() {
	p.mu.Lock()
	p.closed = true
	close(p.replies)
	p.mu.Unlock()
	p.ended.Wait()
}
