"""Statuses that make Table cells interesting, by kind."""

from __future__ import annotations

from typing import Any

STATUSES: dict[str, dict[str, Any]] = {
    "Deployment": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
    "ReplicaSet": {"replicas": 3, "readyReplicas": 2},
    "ReplicationController": {"replicas": 3, "readyReplicas": 2},
    "StatefulSet": {"replicas": 2, "readyReplicas": 1},
    "DaemonSet": {
        "currentNumberScheduled": 1,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 2,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
    },
    "Job": {"startTime": "2026-01-01T00:00:00Z", "active": 1},
    "CronJob": {"lastScheduleTime": "2026-11-01T00:00:00Z"},
    "Ingress": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    "Pod": {
        "phase": "Running",
        "podIP": "10.1.1.1",
        "podIPs": [{"ip": "10.1.1.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "c",
                "image": "x",
                "imageID": "",
                "ready": True,
                "restartCount": 3,
                "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-15T10:00:00Z"}},
            },
            {
                "name": "d",
                "image": "x",
                "imageID": "",
                "ready": False,
                "restartCount": 1,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            },
        ],
    },
    "ResourceQuota": {"hard": {"pods": "10", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "3", "cpu": "500m"}},
    "PodDisruptionBudget": {"disruptionsAllowed": 2, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    "HorizontalPodAutoscaler": {"currentReplicas": 2, "desiredReplicas": 2},
    "Node": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "1.1.1.1"}],
        "nodeInfo": {
            "kubeletVersion": "v1",
            "osImage": "o",
            "kernelVersion": "k",
            "containerRuntimeVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kubeProxyVersion": "",
            "operatingSystem": "",
            "architecture": "",
        },
        "capacity": {"cpu": "1"},
    },
    "PersistentVolumeClaim": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    "VolumeAttachment": {"attached": True},
}
