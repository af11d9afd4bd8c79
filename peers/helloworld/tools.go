//go:build tools

// Package helloworld pins upstream's example of an addon with a manager and an agent of its own, which speak v1beta1.
package helloworld

import _ "open-cluster-management.io/addon-framework/cmd/example/helloworld"
