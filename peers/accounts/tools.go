//go:build tools

// Package accounts pins upstream's managed-serviceaccount, whose manager and agent are one program.
package accounts

import _ "open-cluster-management.io/managed-serviceaccount/cmd"
