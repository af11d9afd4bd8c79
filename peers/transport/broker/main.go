// Program transport-broker is sdk-go's own gRPC server and broker before a service that keeps its objects in memory: a hub's
// server of OCM 1.3 without a hub. Whoever shows a certificate of the clients' CA, or any token, may do everything.
//
//	transport-broker --port P --cert FILE --key FILE --client-ca FILE [--heartbeat 10s]
//
// It is driven by JSON lines on standard input, and answers each by one on standard output (`{"answer":…}` or `{"error":…}`). What
// agents publish is told between them (`{"published":…}`). Ends with standard input.
//
//	{"op":"apply","dataType":D,"object":{…}}     keep an object, and tell its subscribers
//	{"op":"remove","dataType":D,"id":UID}        let it go; with "silent":true nobody is told
//	{"op":"fail","dataType":D,"status":{…}}      the next publish of that type ends with this Kubernetes Status
//	{"op":"subscribers"}                         the clusters that are subscribed
//	{"op":"fill","cluster":C,"count":N}          N works that nobody is told of
//	{"op":"feed","clusters":N,"streams":M,"count":K,"size":B}   tell K changes to clusters in turn, as fast as the broker takes them
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
	cegrpc "open-cluster-management.io/sdk-go/pkg/cloudevents/server/grpc"
	sdkgrpc "open-cluster-management.io/sdk-go/pkg/server/grpc"
	"open-cluster-management.io/sdk-go/pkg/server/grpc/authn"
	"open-cluster-management.io/sdk-go/pkg/server/grpc/authz"
)

// command is one line of standard input.
type command struct {
	Op       string          `json:"op"`
	DataType string          `json:"dataType"`
	Object   json.RawMessage `json:"object"`
	ID       string          `json:"id"`
	Silent   bool            `json:"silent"`
	Status   *metav1.Status  `json:"status"`
	Cluster  string          `json:"cluster"`
	Prefix   string          `json:"prefix"`
	Clusters int             `json:"clusters"`
	Streams  int             `json:"streams"`
	Count    int             `json:"count"`
	Size     int             `json:"size"`
}

func main() {
	options := sdkgrpc.NewGRPCServerOptions()
	broker := cegrpc.NewBrokerOptions()
	flag.StringVar(&options.ServerBindPort, "port", "8090", "port to listen on")
	flag.StringVar(&options.TLSCertFile, "cert", "", "file of the server's certificate")
	flag.StringVar(&options.TLSKeyFile, "key", "", "file of its key")
	flag.StringVar(&options.ClientCAFile, "client-ca", "", "file of the CA of clients' certificates")
	flag.DurationVar(&broker.HeartbeatCheckInterval, "heartbeat", 10*time.Second, "interval of heartbeats")
	flag.Parse()
	ctx, stop := context.WithCancel(context.Background())
	bench := &bench{cegrpc.NewGRPCBroker(broker), map[string]*service{}}
	for dataType, codec := range codecs {
		bench.services[dataType] = newService(codec)
		parsed, err := types.ParseCloudEventsDataType(dataType)
		if err != nil {
			panic(err)
		}
		bench.broker.RegisterService(ctx, *parsed, bench.services[dataType])
	}
	server := sdkgrpc.NewGRPCServer(options).
		WithAuthenticator(tokens{}).
		WithAuthenticator(authn.NewMtlsAuthenticator()).
		WithUnaryAuthorizer(anybody{}).
		WithStreamAuthorizer(anybody{}).
		WithRegisterFunc(func(s *grpc.Server) { pbv1.RegisterCloudEventServiceServer(s, bench.broker) })
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	go func() {
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	bench.serve(ctx)
	stop()
}

type bench struct {
	broker   *cegrpc.GRPCBroker
	services map[string]*service
}

func (b *bench) serve(ctx context.Context) {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), 64<<20)
	for scanner.Scan() {
		var asked command
		answer := map[string]any{}
		err := json.Unmarshal(scanner.Bytes(), &asked)
		if err == nil {
			answer["answer"], err = b.do(ctx, &asked)
		}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		say(answer)
	}
}

func (b *bench) do(ctx context.Context, asked *command) (any, error) {
	switch asked.Op {
	case "subscribers":
		return b.broker.Subscribers().UnsortedList(), nil
	case "fill":
		return b.fill(asked)
	case "feed":
		return b.feed(ctx, asked)
	}
	service := b.services[asked.DataType]
	if service == nil {
		return nil, fmt.Errorf("no data type %q", asked.DataType)
	}
	switch asked.Op {
	case "apply":
		return service.apply(ctx, asked.Object)
	case "remove":
		return service.remove(ctx, asked.ID, asked.Silent)
	case "fail":
		service.fail(asked.Status)
		return "ok", nil
	}
	return nil, fmt.Errorf("no operation %q", asked.Op)
}

// fill keeps works that were always there.
func (b *bench) fill(asked *command) (any, error) {
	service := b.services[works]
	for number := range asked.Count {
		if err := service.keep(object(works, asked.Cluster, number, asked.Size)); err != nil {
			return nil, err
		}
	}
	return asked.Count, nil
}

// feed tells changes one after the other, each encoded anew, as informers' handlers do.
func (b *bench) feed(ctx context.Context, asked *command) (any, error) {
	if asked.Streams < 1 || asked.Streams > len(fedTypes) || asked.Clusters < 1 {
		return nil, fmt.Errorf("streams is 1 to %d, and there is a cluster", len(fedTypes))
	}
	objects := make([]*kept, asked.Clusters*asked.Streams)
	for number := range objects {
		cluster := fmt.Sprintf("%s%05d", asked.Prefix, number/asked.Streams)
		dataType := fedTypes[number%asked.Streams]
		made, err := codecs[dataType](object(dataType, cluster, number, asked.Size))
		if err != nil {
			return nil, err
		}
		objects[number] = made
	}
	began := time.Now()
	for number := range asked.Count {
		event, err := objects[number%len(objects)].encode(types.UpdateRequestAction)
		if err != nil {
			return nil, err
		}
		if err := b.broker.HandleEvent(ctx, event); err != nil {
			return nil, err
		}
	}
	return map[string]float64{"seconds": time.Since(began).Seconds()}, nil
}

var saying sync.Mutex

func say(what any) {
	saying.Lock()
	defer saying.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(what)
}

// tokens takes every bearer of a token for the user of that name.
type tokens struct{}

func (tokens) Authenticate(ctx context.Context) (context.Context, error) {
	head, _ := metadata.FromIncomingContext(ctx)
	if len(head.Get("authorization")) == 0 {
		return ctx, fmt.Errorf("no token")
	}
	return ctx, nil
}

// anybody may do everything.
type anybody struct{}

func (anybody) AuthorizeRequest(context.Context, any) (authz.Decision, error) {
	return authz.DecisionAllow, nil
}

func (anybody) AuthorizeStream(_ context.Context, stream grpc.ServerStream, _ *grpc.StreamServerInfo) (authz.Decision, grpc.ServerStream, error) {
	return authz.DecisionAllow, stream, nil
}
