//go:build tools

// Package konnectivity pins upstream's network proxy: the server and the agent that cluster-proxy runs.
package konnectivity

import (
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/agent"
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/server"
)
