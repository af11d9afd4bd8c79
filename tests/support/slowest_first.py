"""Which test files take longest, so that they begin first and a run does not end with one worker busy and the others idle.

Folders whose files share control planes come before all others, each in one piece: a worker that has left one ends its planes, and
a run does not end with thirty idle API servers beside those that are at work.

Seconds are those of a quiet machine with two cores, rounded, and only their order matters: a file that is not named here takes
less than all that are. `python -m pytest --durations=0 …` tells when the table has grown old.
"""

from collections.abc import Mapping
from pathlib import Path

SECONDS: Mapping[str, int] = {
    "e2e/test_readme_tour.py": 90,
    "e2e/test_local_fleet.py": 85,
    "e2e/test_local_fleet_ends.py": 50,
    "e2e/test_simulated_images.py": 36,
    "e2e/test_grpc_fleet_on_sql.py": 45,
    "e2e/test_installed_wheel.py": 46,
    "differential/test_cases.py": 75,
    "e2e/work/test_faults.py": 60,
    "e2e/policy/test_disconnected.py": 55,
    "e2e/policy/test_secrets.py": 20,
    "e2e/policy/test_attacks.py": 18,
    "e2e/policy/test_templates.py": 15,
    "e2e/policy/test_rights.py": 12,
    "e2e/policy/test_secure_metrics.py": 11,
    "e2e/policy_addon/test_hub_templating.py": 20,
    "e2e/policy_addon/test_hosted.py": 15,
    "e2e/addon/test_credentials.py": 30,
    "e2e/addon/test_template_addons.py": 30,
    "e2e/addon/test_over_grpc.py": 25,
    "e2e/addon/test_installation.py": 25,
    "e2e/addon/test_hosted.py": 25,
    "e2e/addon/test_tokens.py": 20,
    "e2e/accounts/test_accounts.py": 15,
    "e2e/gateway/test_attacks.py": 45,
    "e2e/gateway/test_replicas.py": 25,
    "e2e/gateway/test_endurance.py": 20,
    "e2e/gateway/test_certified_callers.py": 18,
    "e2e/gateway/test_rights.py": 15,
    "e2e/gateway/test_hostile_agents.py": 12,
    "e2e/addon/test_deleted_clusters.py": 20,
    "e2e/test_addons_page.py": 30,
    "interop/test_grpc_renewal.py": 150,
    "interop/test_takeover.py": 120,
    "interop/test_bench_runs.py": 60,
    "interop/test_image.py": 60,
    "interop/test_client_go.py": 50,
    "e2e/test_kubectl_writes.py": 30,
    "e2e/clusteradm/test_every_command.py": 45,
    "e2e/test_policy_fleet.py": 38,
    "interop/test_random_works.py": 45,
    "e2e/test_hostile_input.py": 30,
    "e2e/test_apiserver_command.py": 35,
    "e2e/test_hostile_connections.py": 25,
    "e2e/operator/test_cluster_manager.py": 32,
    "interop/gotemplate/test_differential.py": 30,
    "interop/test_registration.py": 30,
    "interop/test_fleet_clients.py": 30,
    "interop/test_cluster_proxy.py": 30,
    "interop/test_aws_peers.py": 25,
    "interop/test_aws_authenticator.py": 20,
    "e2e/registration/test_crowds.py": 30,
    "e2e/test_sim_command.py": 30,
    "e2e/registration/test_outages.py": 28,
    "e2e/aws/test_serving.py": 25,
    "unit/http/test_relaying.py": 25,
    "e2e/operator/test_klusterlet.py": 25,
    "e2e/clusteradm/test_options_of_lists.py": 25,
    "e2e/transport/test_silent_servers.py": 25,
    "e2e/test_node_runtime.py": 24,
    "e2e/test_pod_boundary.py": 24,
    "e2e/clusteradm/test_options_of_join.py": 22,
    "e2e/registration/test_joining.py": 20,
    "e2e/transport/test_killed_servers.py": 20,
    "e2e/registration/test_restarts.py": 20,
    "e2e/test_kubectl_reads.py": 20,
    "unit/cli/clusteradm/test_join.py": 20,
    "unit/operator/test_cluster_manager.py": 12,
    "unit/operator/test_klusterlet.py": 18,
    "e2e/test_pod_boundary_by_works.py": 12,
    "e2e/work/test_executor_attacks.py": 18,
    "unit/http/test_limits_and_malformed_requests.py": 17,
    "unit/http/test_streams_and_takeovers.py": 16,
    "unit/cli/clusteradm/test_init.py": 15,
    "interop/test_flaky_tool.py": 15,
    "e2e/test_durability.py": 15,
    "e2e/test_aws_fleet.py": 35,
    "e2e/test_grpc_fleet.py": 25,
    "unit/cli/clusteradm/test_unjoin.py": 15,
    "unit/operator/test_hosted_klusterlet.py": 15,
    "e2e/transport/test_hub_away.py": 15,
    "e2e/transport/test_wrong_clocks.py": 15,
    "e2e/transport/test_rolling_restart.py": 15,
    "e2e/aws/test_joining.py": 15,
    "e2e/operator/test_whole_hub.py": 14,
    "e2e/operator/test_whole_managed_cluster.py": 14,
    "e2e/clusteradm/test_whole_hub.py": 12,
    "unit/cli/clusteradm/test_get.py": 12,
    "unit/cli/clusteradm/test_doctor_table.py": 11,
    "unit/cli/clusteradm/test_aws_doctor.py": 12,
    "unit/registration/hub/clusters/test_aws_rights.py": 12,
    "unit/gotemplate/test_hostile.py": 10,
    "unit/store/test_crash.py": 10,
    "unit/store/test_behaviour.py": 10,
    "unit/store/test_postgres_servers.py": 10,
    "unit/store/test_random_histories.py": 10,
    "unit/http/multiplexing/test_limits.py": 12,
}
SHARING = ("e2e/addon", "e2e/transport", "e2e/registration", "e2e/clusteradm", "e2e/operator", "e2e/gateway", "e2e/policy")
_TESTS = Path(__file__).parents[1]


def missing() -> list[str]:
    """What the table names and is no longer there."""
    return [name for name in SECONDS if not (_TESTS / name).is_file()]


def seconds(path: Path) -> int:
    return SECONDS.get(_name(path), 0)


def turn(path: Path) -> tuple[int, int]:
    """What files are sorted by."""
    folder = _name(path).rpartition("/")[0]
    return SHARING.index(folder) if folder in SHARING else len(SHARING), -seconds(path)


def _name(path: Path) -> str:
    return path.relative_to(_TESTS).as_posix() if path.is_relative_to(_TESTS) else ""
