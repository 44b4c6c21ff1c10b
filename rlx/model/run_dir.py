"""Name the files and folders of a run directory, without any reading or writing.

`rlx/payload/supervise/05-layout.sh` holds those that shell scripts use, under the same names.

    <root>/runs/<run id>/
      manifest.json  launch.sh  supervise.sh  env  mask_secrets.py  payload/  script/  checkpoints/  cluster  container
      block  image  holder  holder.log  ticket  devices  foreign  stop  request  job  docker
      latest -> attempts/<k>
      attempts/<k>/
        lineage.json  resume
        ray_jobs.jsonl
        log  metrics.jsonl  usage  provenance.json  hydra/.hydra/config.yaml  console_config  events/*.jsonl
        validation/<step>.jsonl
        state/  started  supervisor  leader  claimed  sampler  heartbeat  clock  ray_tmp  script  ray_jobs
               reserved.<writer>  cut  exit  stop  job

`request` names the scheduler of a job and what is asked of it, `docker` says of what a job makes its container, and
`image` is the id of the image that a run is in.
`events/interventions.jsonl` has a line for each command of a user's script that was kept within its run: `at` (seconds
since 1970), `command` and `done`. `ray_jobs.jsonl` has one for each job that it hands to a Ray: `submission_id`,
`address` (of Ray's dashboard, http://HOST:PORT), `at`, `ray` (the program that submits it), `own` (whether the run
started that Ray) and `wait` (whether its log is printed until it ends). It is written before the job is submitted, so
Ray may never have heard of that one. In the state, `script` is how the script ended, and `ray_jobs` how its jobs are.
`lineage.json` and `resume` are those of a further attempt: why it was begun, and where it goes on. The `stop` that
ended an attempt, and its `job`, move into its state when the next one begins.

Beside them in <root>/runs: .removed/<run id>.json, what a removed run was, and .trash/, what is being deleted.
"""

from __future__ import annotations

# Sent by a launch, or written by the holder.
MANIFEST_FILE = "manifest.json"
LAUNCH_FILE = "launch.sh"
SUPERVISE_FILE = "supervise.sh"
ENV_FILE = "env"
MASK_FILE = "mask_secrets.py"
PAYLOAD_DIR = "payload"
RAY_JOBS_PROGRAM = "payload/ray_jobs.py"
SCRIPT_DIR = "script"
COMMAND_FILE = "command.sh"  # of a command line that was given in place of a script
CHECKPOINTS_DIR = "checkpoints"
CLUSTER_FILE = "cluster"
CONTAINER_FILE = "container"
BLOCK_FILE = "block"
BLOCKS_DIR = ".blocks"
"""Beside the run directories."""
IMAGE_FILE = "image"
HOLDER_FILE = "holder"
HOLDER_LOG_FILE = "holder.log"
TICKET_FILE = "ticket"
DEVICES_FILE = "devices"
FOREIGN_FILE = "foreign"
STOP_FILE = "stop"
REQUEST_FILE = "request"
# What versions before 0.3 wrote in place of `request`, for Slurm alone.
EARLIER_REQUEST_FILE = "slurm"
JOB_FILE = "job"
DOCKER_FILE = "docker"
ATTEMPTS_DIR = "attempts"
LATEST_LINK = "latest"

# Of an attempt.
LINEAGE_FILE = "lineage.json"
RESUME_FILE = "resume"
LOG_FILE = "log"
METRICS_FILE = "metrics.jsonl"
USAGE_FILE = "usage"
PROVENANCE_FILE = "provenance.json"
COMPOSED_FILE = "hydra/.hydra/config.yaml"  # of back-ends without Hydra, too
PRINTED_FILE = "console_config"
EVENTS_DIR = "events"
INTERVENTIONS_FILE = f"{EVENTS_DIR}/interventions.jsonl"
RAY_JOBS_FILE = "ray_jobs.jsonl"
VALIDATION_DIR = "validation"
STATE_DIR = "state"

# Of its state.
STARTED_DIR = "started"
SUPERVISOR_FILE = "supervisor"
LEADER_FILE = "leader"
CLAIMED_FILE = "claimed"
SAMPLER_FILE = "sampler"
HEARTBEAT_FILE = "heartbeat"
CLOCK_FILE = "clock"
RAY_TMP_FILE = "ray_tmp"
RAY_STATE_FILE = "ray_jobs"
SCRIPT_FILE = "script"
RESERVED_FILE = "reserved"
CUT_FILE = "cut"
EXIT_FILE = "exit"

# Beside the run directories.
TOMBSTONES_DIR = ".removed"
TRASH_DIR = ".trash"
