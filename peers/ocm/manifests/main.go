// Program ocm-manifests prints what OCM's operators install besides Deployments: CRDs, service accounts and RBAC, rendered
// from upstream's own templates. Tests that run the hub controller and the agents as plain processes start from it.
//
//	ocm-manifests hub
//	ocm-manifests hub-grpc     with the gRPC server's account, and the hub's right to sign for it
//	ocm-manifests addon-manager     its account and rights, beside what a hub has
//	ocm-manifests agent
package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/template"

	"open-cluster-management.io/ocm/manifests"
)

// set is a group of template files and the values they are rendered with.
type set struct {
	files  embed.FS
	roots  []string
	values any
}

var base = []string{
	"cluster-manager/hub/crds", "cluster-manager/hub/registration", "cluster-manager/hub/placement", "cluster-manager/hub/work",
}

func hub(grpc bool, roots ...string) set {
	return set{
		files: manifests.ClusterManagerManifestFiles,
		roots: roots,
		values: manifests.HubConfig{
			ClusterManagerName:      "cluster-manager",
			ClusterManagerNamespace: "open-cluster-management-hub",
			OperatorNamespace:       "open-cluster-management",
			GRPCAuthEnabled:         grpc,
		},
	}
}

var sets = map[string]set{
	"hub":           hub(false, base...),
	"hub-grpc":      hub(true, append(base, "cluster-manager/hub/grpc-server")...),
	"addon-manager": hub(false, "cluster-manager/hub/addon-manager"),
	"agent": {
		files: manifests.KlusterletManifestFiles,
		roots: []string{"klusterlet/managed", "klusterlet/management"},
		values: map[string]any{
			"KlusterletName":             "klusterlet",
			"KlusterletNamespace":        "open-cluster-management-agent",
			"AgentNamespace":             "open-cluster-management-agent",
			"OperatorNamespace":          "open-cluster-management",
			"RegistrationServiceAccount": "klusterlet-registration-sa",
			"WorkServiceAccount":         "klusterlet-work-sa",
			"HubKubeConfigSecret":        "hub-kubeconfig-secret",
			"Labels":                     map[string]string{},
			"InstallMode":                "Default",
		},
	},
}

// wanted leaves out what needs pods (Deployments, Services and everything around webhook servers), and what the addon manager itself
// fills in for each addon that uses tokens.
func wanted(path string) bool {
	for _, without := range []string{"deployment.yaml", "/service.yaml", "webhook-", "/token-"} {
		if strings.Contains(path, without) {
			return false
		}
	}
	return strings.HasSuffix(path, ".yaml")
}

func render(s set) error {
	for _, root := range s.roots {
		err := fs.WalkDir(s.files, root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !wanted(path) {
				return err
			}
			text, err := s.files.ReadFile(path)
			if err != nil {
				return err
			}
			parsed, err := template.New(path).Parse(string(text))
			if err != nil {
				return err
			}
			fmt.Printf("---\n# %s\n", path)
			return parsed.Execute(os.Stdout, s.values)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 2 || sets[os.Args[1]].roots == nil {
		fmt.Fprintln(os.Stderr, "usage: ocm-manifests hub|hub-grpc|addon-manager|agent")
		os.Exit(2)
	}
	if err := render(sets[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
