//go:build tools

// Package clusteradm pins upstream's command line program.
package clusteradm

import _ "open-cluster-management.io/clusteradm/cmd/clusteradm"
