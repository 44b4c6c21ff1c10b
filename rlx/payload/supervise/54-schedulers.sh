# ---- batch schedulers ----------------------------------------------------------------------------------------------
# A run whose directory has a file `request` is a job of the scheduler that its first line names; the other lines say what
# is asked of it. This host is a login node, which sees the directory and none of the processes. `job` says which job it
# is, and when it was submitted. What a scheduler does is in functions whose names begin with its own:
#   NAME_submit           the newest attempt of $run becomes a job, which calls `supervise.sh job RUN KIND WANTED`: sets JOB
#   NAME_find             in JOB, the job that a launch submitted which was cut off before it noted that
#   NAME_job RUN KIND WANTED    the script of the job: supervises the run on the devices that it has
#   NAME_node RUN KIND WANTED   the same on a further node
#   NAME_attend           starts the further nodes, and ends the run where one of them fails
#   NAME_refuse           records that the job lacks what $PROBLEM says
#   NAME_note_cut WHY     notes why the scheduler told the run to end
#   NAME_report           of the jobs in JOBS (`id=job …`), lines that begin with NAME
#   NAME_stop             ends the job of $run, prints as `stop` does, and `job WORDS` where one is over
#   NAME_over             fails unless the job of the newest attempt of $run is over
#   NAME_jobs ARGUMENT…   the jobs of everybody, a line each
# Those of another distribution's scheduler come with what is sent where its name is known; elsewhere this says the name,
# and is sent again with them. The supervise.sh of a run is not called for it: others may be able to write there.

UNKNOWN_SCHEDULER=3 # as rlx/runs/supervisor.py has it

# is_job RUN: in SCHEDULER, the scheduler that it is a job of; fails for none. Runs of earlier versions were jobs of Slurm,
# and their file has no line that says so.
is_job() {
    SCHEDULER=
    if [ -f "$1/$REQUEST_FILE" ]; then
        { read -r SCHEDULER <"$1/$REQUEST_FILE"; } 2>/dev/null
    elif [ -f "$1/$EARLIER_REQUEST_FILE" ]; then
        SCHEDULER=slurm
    fi
    case $SCHEDULER in '' | *[!a-z0-9_]*) SCHEDULER='' && return 1 ;; esac
}

# request_of RUN: what is asked of the scheduler, a line each.
request_of() { sed 1d "$1/$REQUEST_FILE"; }

knows() { command -v "${SCHEDULER}_$1" >/dev/null 2>&1; }

# find_job RUN: in JOB, the name that its job had when it was submitted; fails if none is noted.
find_job() {
    JOB=
    [ -f "$1/$JOB_FILE" ] && { read -r JOB _ <"$1/$JOB_FILE"; } 2>/dev/null || return 1
    case $JOB in '' | *[!A-Za-z0-9._-]*) JOB='' && return 1 ;; esac
}

# name_job ID: in NAME, what the job of the attempt that find_attempt has found is called; `@` is in no id.
name_job() {
    NAME=$1
    [ "$newest" -eq 1 ] || NAME=$1@$newest
}

# find_head ID: in HEAD, the run that this is a node of; itself, unless it is a further one.
find_head() {
    case $1 in *-node[0-9]*) HEAD=${1##*-node} ;; *) HEAD=$1 && return ;; esac
    case $HEAD in *[!0-9]*) HEAD=$1 ;; *) HEAD=${1%-node*} ;; esac
}

# of_nodes COMMAND: once with each directory of $run: its own, and those of the other nodes of its job.
of_nodes() {
    for part in "$run" "$run"-node[0-9]*; do
        [ "$part" = "$run" ] || is_job "$part" || continue
        "$1" "$part"
    done
}

forget_secrets() { rm -f "$1/$ENV_FILE"; }

# submit_job: the newest attempt of $run becomes a job, unless it is one already.
submit_job() {
    find_job "$run" && return
    find_attempt "$run"
    name_job "$id"
    knows submit || take_back "this rlx has no scheduler $SCHEDULER"
    # A launch that was cut off may have submitted it, and noted nothing.
    [ -n "$fresh" ] || "${SCHEDULER}_find"
    [ -n "$JOB" ] || "${SCHEDULER}_submit"
    # The head's last: it says that the job is noted.
    for part in "$run"-node[0-9]* "$run"; do
        [ ! -d "$part" ] || note_job "$part"
    done
    outcome=started
}

note_job() { put "$1/$JOB_FILE" "$JOB $(date +%s)" || take_back "cannot write to $1"; }

# job RUN KIND WANTED: the script of the job, on its first node.
job() {
    run=$1 kind=$2 wanted=$3
    cd /
    is_job "$run" || fail "$NODE does not see $run: the root of this host must lie on the file system of all nodes"
    "${SCHEDULER}_job"
}

# node RUN KIND WANTED: on a further node; each has a run directory and a supervisor of its own, as on hosts of their own.
node() {
    is_job "$1" || fail "$NODE does not see $1: the root of this host must lie on the file system of all nodes"
    "${SCHEDULER}_node" "$@"
}

# start_nodes: on the head alone.
start_nodes() {
    attendant=
    is_job "$run" && [ "$nodes" -gt 1 ] && [ "$node" -eq 0 ] || return 0
    "${SCHEDULER}_attend" &
    attendant=$!
}

# note_cut WHY: into `cut`, why the scheduler ended the run. It told the run by a signal that says nothing more.
note_cut() { ! is_job "$run" || "${SCHEDULER}_note_cut" "$1"; }

# report_jobs: what each scheduler says of those of $RUNS that have recorded no end.
report_jobs() {
    schedulers=
    for id in $RUNS; do
        { is_job "$root/runs/$id" && find_job "$root/runs/$id"; } || continue
        find_attempt "$root/runs/$id"
        [ ! -e "$STATE/$EXIT_FILE" ] || continue
        schedulers=$schedulers$SCHEDULER$NEWLINE
        # Only the name, which is_job has checked, becomes part of the command.
        eval "jobs_of_$SCHEDULER=\"\${jobs_of_$SCHEDULER-} \$id=\$JOB\""
    done
    [ -n "$schedulers" ] || return 0
    for SCHEDULER in $(printf %s "$schedulers" | sort -u); do
        eval "JOBS=\$jobs_of_$SCHEDULER"
        if knows report; then "${SCHEDULER}_report"; else printf 'unknown %s%s\n' "$SCHEDULER" "$JOBS"; fi
    done
}

# facts ROOT ID…: the lines of report_jobs alone.
facts() {
    choose_runs "$@"
    report_jobs
}

stop_job() {
    knows stop || { printf '%s\n' "$SCHEDULER" && exit "$UNKNOWN_SCHEDULER"; }
    "${SCHEDULER}_stop"
}

# mark_stopped RUN: notes in `asked` that this call did so. unmark_part RUN: takes that back: a stop that did not happen
# must not pass for the reason of an end that comes later.
mark_stopped() {
    find_attempt "$1"
    [ ! -e "$STATE/$EXIT_FILE" ] && [ ! -e "$1/$STOP_FILE" ] || return 0
    put "$1/$STOP_FILE" "$(date +%s) $grace" || : >"$1/$STOP_FILE"
    asked="$asked ${1##*/}"
}

unmark_part() { case " $asked " in *" ${1##*/} "*) rm -f "$1/$STOP_FILE" ;; esac; }

check_job_is_over() {
    knows over || fail "this rlx has no scheduler $SCHEDULER"
    "${SCHEDULER}_over"
}

# jobs SCHEDULER ARGUMENT…: who has what of it, and who waits.
jobs() {
    SCHEDULER=$1
    shift
    knows jobs || fail "this rlx has no scheduler $SCHEDULER"
    "${SCHEDULER}_jobs" "$@"
}
