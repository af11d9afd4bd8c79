// Program kubelet-streams is what of a kubelet kubectl's exec, attach, cp, port-forward and logs need, on upstream's own streaming
// code: SPDY and WebSocket are served as kubelets serve them. The machine itself stands for the container: commands run on it, ports
// are its own, and one program is the container's main process.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	streams "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
	kubelet "k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	idle     = 4 * time.Hour
	creation = streams.DefaultStreamCreationTimeout
)

type runtime struct{ main *mainProcess }

func (r *runtime) ExecInContainer(ctx context.Context, _ string, _ types.UID, _ string, argv []string, in io.Reader, out, err io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if len(argv) == 0 {
		return errors.New("no command")
	}
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if out != nil {
		command.Stdout = out
	}
	if err != nil {
		command.Stderr = err
	}
	if tty {
		command.Stderr = out
	}
	if in != nil {
		stdin, problem := command.StdinPipe()
		if problem != nil {
			return problem
		}
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
	}
	problem := command.Run()
	var exited *exec.ExitError
	if errors.As(problem, &exited) {
		return utilexec.CodeExitError{Err: problem, Code: exited.ExitCode()}
	}
	return problem
}

func (r *runtime) AttachContainer(ctx context.Context, _ string, _ types.UID, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	return r.main.attach(ctx, in, out)
}

func (r *runtime) PortForward(ctx context.Context, _ string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer connection.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(stream, connection)
	}()
	_, _ = io.Copy(connection, stream)
	_ = connection.(*net.TCPConn).CloseWrite()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

func (r *runtime) exec(w http.ResponseWriter, req *http.Request) {
	wanted, err := kubelet.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, container, argv := req.PathValue("pod"), req.PathValue("container"), req.URL.Query()["command"]
	kubelet.ServeExec(w, req, r, pod, "", container, argv, wanted, idle, creation, streams.SupportedStreamingProtocols)
}

func (r *runtime) attach(w http.ResponseWriter, req *http.Request) {
	wanted, err := kubelet.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, container := req.PathValue("pod"), req.PathValue("container")
	kubelet.ServeAttach(w, req, r, pod, "", container, wanted, idle, creation, streams.SupportedStreamingProtocols)
}

func (r *runtime) portForward(w http.ResponseWriter, req *http.Request) {
	wanted, err := portforward.NewV4Options(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, req, r, req.PathValue("pod"), "", wanted, idle, creation, portforward.SupportedProtocols)
}

func (r *runtime) logs(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	r.main.follow(req.Context(), flushing{w, http.NewResponseController(w)}, req.FormValue("follow") == "true")
}

type flushing struct {
	io.Writer
	control *http.ResponseController
}

func (f flushing) Write(piece []byte) (int, error) {
	count, err := f.Writer.Write(piece)
	if err == nil {
		err = f.control.Flush()
	}
	return count, err
}

func serve() error {
	address := flag.String("address", "127.0.0.1:10250", "where to listen")
	certificate := flag.String("tls-cert-file", "", "")
	key := flag.String("tls-private-key-file", "", "")
	clients := flag.String("client-ca-file", "", "who signs the certificates of API servers; nobody else is served")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("the container's main process is missing: give its command line after the flags")
	}
	pem, err := os.ReadFile(*clients)
	if err != nil {
		return err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s has no certificate", *clients)
	}
	r := &runtime{main: newMainProcess(flag.Args())}
	go r.main.run()
	mux := http.NewServeMux()
	for _, method := range []string{"GET", "POST"} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", r.exec)
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", r.attach)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", r.portForward)
	}
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", r.logs)
	// Without HTTP/2, which cannot be taken over.
	server := http.Server{Addr: *address, Handler: mux, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	server.TLSConfig = &tls.Config{ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert}
	return server.ListenAndServeTLS(*certificate, *key)
}

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}
