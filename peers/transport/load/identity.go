package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
)

// dialer makes connections of agents: each with a certificate of its own cluster, all with one key.
type dialer struct {
	server  string
	roots   *x509.CertPool
	issuer  *x509.Certificate
	signer  any
	key     *ecdsa.PrivateKey
	options []grpc.DialOption
}

func newDialer(o *options, more ...grpc.DialOption) (*dialer, error) {
	roots := x509.NewCertPool()
	trusted, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(trusted) {
		return nil, fmt.Errorf("%s: no certificate in it", o.ca)
	}
	pair, err := tls.LoadX509KeyPair(o.clientCA, o.clientKey)
	if err != nil {
		return nil, err
	}
	issuer, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &dialer{o.server, roots, issuer, pair.PrivateKey, key, more}, nil
}

func (d *dialer) certificate(cluster string) (tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return tls.Certificate{}, err
	}
	group := "system:open-cluster-management:" + cluster
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject: pkix.Name{
			CommonName:   group + ":load",
			Organization: []string{group, "system:open-cluster-management:managed-clusters"},
		},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, d.issuer, &d.key.PublicKey, d.signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: d.key}, nil
}

// dial gives a connection of the cluster's agent. It connects with the first call.
func (d *dialer) dial(cluster string) (*grpc.ClientConn, error) {
	own, err := d.certificate(cluster)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: d.roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute, Timeout: 30 * time.Second}),
		grpc.WithNoProxy(),
	}, d.options...)
	return grpc.NewClient("passthrough:///"+d.server, options...)
}

// subscribe opens a stream and waits for its head, as agents do.
func subscribe(ctx context.Context, connection *grpc.ClientConn, cluster, dataType string) (pbv1.CloudEventService_SubscribeClient, error) {
	request := &pbv1.SubscriptionRequest{ClusterName: cluster, DataType: dataType}
	stream, err := pbv1.NewCloudEventServiceClient(connection).Subscribe(ctx, request)
	if err != nil {
		return nil, err
	}
	head, err := stream.Header()
	if err != nil {
		return nil, err
	}
	if len(head.Get("subscription-id")) != 1 {
		_, err := stream.Recv()
		return nil, fmt.Errorf("%s of %s: the stream's head has no subscription-id: %w", dataType, cluster, err)
	}
	return stream, nil
}

