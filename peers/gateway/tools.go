//go:build tools

// Package gateway pins upstream's cluster-gateway; beside it, in client, is a program of ours on its client library.
package gateway

import _ "github.com/oam-dev/cluster-gateway/cmd/apiserver"
