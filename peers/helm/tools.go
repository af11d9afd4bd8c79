//go:build tools

// Package helm pins the package manager that installs our charts.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
