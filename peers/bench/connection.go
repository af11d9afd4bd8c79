package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Server is where requests go: an address, the path before /api, and the headers that every request carries.
type Server struct {
	host   string
	prefix string
	common string
	config *tls.Config
}

func newServer(options Options) (*Server, error) {
	address, err := url.Parse(options.URL)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(options.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", options.CA)
	}
	name := address.Hostname()
	if options.ServerName != "" {
		name = options.ServerName
	}
	return &Server{
		host:   address.Host,
		prefix: address.Path,
		common: "Host: " + address.Host + "\r\nAuthorization: Bearer " + options.Token + "\r\nUser-Agent: loadgen\r\n",
		config: &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"http/1.1"}},
	}, nil
}

// request gives the bytes of one request; path starts at /api.
func (s *Server) request(method, path, accept, media string, body []byte) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s%s HTTP/1.1\r\n%sAccept: %s\r\n", method, s.prefix, path, s.common, accept)
	if body != nil {
		fmt.Fprintf(&out, "Content-Type: %s\r\nContent-Length: %d\r\n", media, len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}

// Connection is one kept TLS connection; one request at a time.
type Connection struct {
	socket net.Conn
	reader *bufio.Reader
	chunk  []byte
}

func (s *Server) connect() (*Connection, error) {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	socket, err := tls.DialWithDialer(dialer, "tcp", s.host, s.config)
	if err != nil {
		return nil, err
	}
	return &Connection{socket: socket, reader: bufio.NewReaderSize(socket, 32*1024), chunk: make([]byte, 64*1024)}, nil
}

func (c *Connection) close() { _ = c.socket.Close() }

// send does one request and reads the whole answer: its status, its size and the first bytes of the body.
func (c *Connection) send(request []byte) (status, size int, head []byte, err error) {
	if _, err = c.socket.Write(request); err != nil {
		return 0, 0, nil, err
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, 0, nil, err
	}
	defer answer.Body.Close()
	for {
		read, err := answer.Body.Read(c.chunk)
		if size < 1024 && read > 0 {
			head = append(head, c.chunk[:min(read, 1024)]...)
		}
		size += read
		if err == io.EOF {
			return answer.StatusCode, size, head, nil
		}
		if err != nil {
			return answer.StatusCode, size, head, err
		}
	}
}
