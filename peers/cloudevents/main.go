// Program cloudevents speaks for Go's side of the transport: it reads one JSON request per line and answers one JSON line per
// request, with what sdk-go's own codecs and protocol make of it.
//
//	encode    an object, by the codec of the event's type          wire
//	build     an event as the broker and the clients of a broker do wire
//	decode    wire, by the codec of the event's type               object
//	event     wire, as far as the protocol reads it                id, source, type, extensions, data
//	resync    wire of a resync request                             object: the versions
//	hash      a ManifestWork                                       text: the hash of its status
//	refusal   a Status, as the broker would send it                text: of the gRPC status
//	status    a text of a gRPC status, as clients read it          object: the Status
//	fields    -                                                    object: the messages' fields by name
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cetypes "github.com/cloudevents/sdk-go/v2/types"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	alphacodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/addon/v1alpha1"
	betacodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/addon/v1beta1"
	clustercodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/cluster"
	csrcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/csr"
	ceerrors "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/errors"
	eventcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/event"
	leasecodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/lease"
	tokencodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/serviceaccount"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/statushash"
	agentcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/codec"
	hubcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/source/codec"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protocol"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/payload"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"
)

type request struct {
	Op     string          `json:"op"`
	Type   string          `json:"type"`
	Source string          `json:"source"`
	Object json.RawMessage `json:"object"`
	Wire   []byte          `json:"wire"`
	Text   string          `json:"text"`

	Cluster    string    `json:"cluster"`
	ResourceID string    `json:"resourceid"`
	Deleted    time.Time `json:"deleted"`
}

type extension struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

type answer struct {
	Error      string               `json:"error,omitempty"`
	Wire       []byte               `json:"wire,omitempty"`
	Object     any                  `json:"object,omitempty"`
	Text       string               `json:"text,omitempty"`
	ID         string               `json:"id,omitempty"`
	Source     string               `json:"source,omitempty"`
	Type       string               `json:"type,omitempty"`
	Extensions map[string]extension `json:"extensions,omitempty"`
	Data       []byte               `json:"data,omitempty"`
}

// codec is one of sdk-go's, whatever its type of object is.
type codec struct {
	encode func(source string, eventType types.CloudEventsType, object []byte) (*cloudevents.Event, error)
	decode func(event *cloudevents.Event) (any, error)
}

func of[T generic.ResourceObject](empty func() T, found generic.Codec[T]) codec {
	return codec{
		encode: func(source string, eventType types.CloudEventsType, object []byte) (*cloudevents.Event, error) {
			into := empty()
			if err := json.Unmarshal(object, into); err != nil {
				return nil, fmt.Errorf("unreadable object: %w", err)
			}
			return found.Encode(source, eventType, into)
		},
		decode: func(event *cloudevents.Event) (any, error) { return found.Decode(event) },
	}
}

func work() *workv1.ManifestWork { return &workv1.ManifestWork{} }

var hub, agent = of(work, hubcodec.NewManifestBundleCodec()), of(work, agentcodec.NewManifestBundleCodec())

var codecs = map[string]codec{
	"managedclusters v1": of(func() *clusterv1.ManagedCluster { return &clusterv1.ManagedCluster{} }, clustercodec.NewManagedClusterCodec()),
	"certificatesigningrequests v1": of(func() *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{}
	}, csrcodec.NewCSRCodec()),
	"leases v1": of(func() *coordinationv1.Lease { return &coordinationv1.Lease{} }, leasecodec.NewLeaseCodec()),
	"events v1": of(func() *eventsv1.Event { return &eventsv1.Event{} }, eventcodec.NewEventCodec()),
	"tokenrequests v1": of(func() *authenticationv1.TokenRequest { return &authenticationv1.TokenRequest{} },
		tokencodec.NewTokenRequestCodec()),
	"managedclusteraddons v1alpha1": of(func() *addonv1alpha1.ManagedClusterAddOn { return &addonv1alpha1.ManagedClusterAddOn{} },
		alphacodec.NewManagedClusterAddOnCodec()),
	"managedclusteraddons v1beta1": of(func() *addonv1beta1.ManagedClusterAddOn { return &addonv1beta1.ManagedClusterAddOn{} },
		betacodec.NewManagedClusterAddOnCodec()),
}

// pick finds the codec of an event's type. Works have two: the hub writes specs and reads statuses, the agent the reverse.
func pick(eventType types.CloudEventsType, reading bool) (codec, error) {
	if eventType.Resource == "manifestbundles" {
		if (eventType.SubResource == types.SubResourceSpec) != reading {
			return hub, nil
		}
		return agent, nil
	}
	found, ok := codecs[eventType.Resource+" "+eventType.Version]
	if !ok {
		return codec{}, fmt.Errorf("no codec for %s", eventType)
	}
	return found, nil
}

func read(wire []byte) (*cloudevents.Event, error) {
	message := &pbv1.PublishRequest{}
	if err := proto.Unmarshal(wire, message); err != nil {
		return nil, err
	}
	if message.Event == nil {
		return nil, fmt.Errorf("no event")
	}
	return binding.ToEvent(context.Background(), protocol.NewMessage(message.Event))
}

func encode(asked request) (answer, error) {
	eventType, err := types.ParseCloudEventsType(asked.Type)
	if err != nil {
		return answer{}, err
	}
	chosen, err := pick(*eventType, false)
	if err != nil {
		return answer{}, err
	}
	event, err := chosen.encode(asked.Source, *eventType, asked.Object)
	if err != nil {
		return answer{}, err
	}
	return write(event)
}

func build(asked request) (answer, error) {
	eventType, err := types.ParseCloudEventsType(asked.Type)
	if err != nil {
		return answer{}, err
	}
	event := types.NewEventBuilder(asked.Source, *eventType).
		WithClusterName(asked.Cluster).WithResourceID(asked.ResourceID).WithDeletionTimestamp(asked.Deleted).NewEvent()
	if len(asked.Object) > 0 {
		if err := event.SetData(cloudevents.ApplicationJSON, asked.Object); err != nil {
			return answer{}, err
		}
	}
	return write(&event)
}

func write(event *cloudevents.Event) (answer, error) {
	written := &pbv1.CloudEvent{}
	if err := protocol.WritePBMessage(context.Background(), binding.ToMessage(event), written); err != nil {
		return answer{}, err
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pbv1.PublishRequest{Event: written})
	return answer{Wire: wire}, err
}

func decode(asked request) (answer, error) {
	event, err := read(asked.Wire)
	if err != nil {
		return answer{}, err
	}
	eventType, err := types.ParseCloudEventsType(event.Type())
	if err != nil {
		return answer{}, err
	}
	chosen, err := pick(*eventType, true)
	if err != nil {
		return answer{}, err
	}
	object, err := chosen.decode(event)
	return answer{Object: object}, err
}

func event(asked request) (answer, error) {
	event, err := read(asked.Wire)
	if err != nil {
		return answer{}, err
	}
	extensions := map[string]extension{}
	for name, value := range event.Extensions() {
		written, err := cetypes.Format(value)
		if err != nil {
			return answer{}, err
		}
		extensions[name] = extension{Kind: fmt.Sprintf("%T", value), Value: written}
	}
	if !event.Time().IsZero() {
		extensions["time"] = extension{Kind: "time", Value: cetypes.FormatTime(event.Time())}
	}
	return answer{ID: event.ID(), Source: event.Source(), Type: event.Type(), Extensions: extensions, Data: event.Data()}, nil
}

func resync(asked request) (answer, error) {
	event, err := read(asked.Wire)
	if err != nil {
		return answer{}, err
	}
	versions, err := payload.DecodeSpecResyncRequest(*event)
	return answer{Object: versions}, err
}

func hash(asked request) (answer, error) {
	into := work()
	if err := json.Unmarshal(asked.Object, into); err != nil {
		return answer{}, err
	}
	found, err := statushash.StatusHash(into)
	return answer{Text: found}, err
}

func refusal(asked request) (answer, error) {
	refused := &apierrors.StatusError{}
	if err := json.Unmarshal(asked.Object, &refused.ErrStatus); err != nil {
		return answer{}, err
	}
	text, err := json.Marshal(refused)
	return answer{Text: string(text)}, err
}

func status(asked request) (answer, error) {
	failed := grpcstatus.Error(codes.FailedPrecondition, asked.Text)
	return answer{Object: ceerrors.ToStatusError(schema.GroupResource{Resource: "things"}, "one", failed).ErrStatus}, nil
}

func fields(request) (answer, error) {
	found := map[string]string{}
	messages := pbv1.File_cloudevent_proto.Messages()
	for i := range messages.Len() {
		message := messages.Get(i)
		for j := range message.Fields().Len() {
			field := message.Fields().Get(j)
			kind := field.Kind().String()
			if field.IsMap() {
				kind = fmt.Sprintf("map<%s, %s>", field.MapKey().Kind(), field.MapValue().Message().Name())
			} else if field.Message() != nil {
				kind = string(field.Message().Name())
			}
			found[fmt.Sprintf("%s.%s", message.Name(), field.Name())] = fmt.Sprintf("%d %s", field.Number(), kind)
		}
	}
	return answer{Object: found, Text: string(pbv1.File_cloudevent_proto.Services().Get(0).FullName())}, nil
}

var operations = map[string]func(request) (answer, error){
	"encode": encode, "build": build, "decode": decode, "event": event, "resync": resync,
	"hash": hash, "refusal": refusal, "status": status, "fields": fields,
}

func respond(line []byte) (found answer) {
	// A reader that panics is an answer too: a server of its kind would be gone.
	defer func() {
		if reason := recover(); reason != nil {
			found = answer{Error: fmt.Sprintf("panic: %v", reason)}
		}
	}()
	asked := request{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: "unreadable request: " + err.Error()}
	}
	operation, ok := operations[asked.Op]
	if !ok {
		return answer{Error: "unknown operation " + asked.Op}
	}
	found, err := operation(asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return found
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(answers)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := encoder.Encode(respond(line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			answers.Flush()
		}
		if err != nil {
			return
		}
	}
}
