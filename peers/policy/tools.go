//go:build tools

// The controller is built as it is, from its own module.
package main

import _ "open-cluster-management.io/config-policy-controller"
