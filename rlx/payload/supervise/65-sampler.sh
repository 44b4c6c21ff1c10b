# ---- the sampler ---------------------------------------------------------------------------------------------------
# What the devices of a run, its host and its own processes do, a line a sample in `usage` of the attempt (docs/devices.md):
#
#   start <time> kind=npu devices=2,3 kills=<n> scope=cgroup|host   by the supervisor, before the run starts
#   at <time> [metrics=<bytes>,<time>] cost=<ms> kills=<n> host=<used>,<all> [group=<used>,<limit>]
#      own=<MiB>,<ms of CPU>,<processes> [d<n>=<used>,<all>,<% in use>,<°C>,<own>,<others'>]… [says=missing|silent|unreadable]
#   end kills=<n>                                                by the process that records the end, before it does
#
# Memory in MiB; `-` is not known. It costs less than 0.5 % of a core, its children included: what a sample costs decides
# when the next one is due, and the longer a run is, the rarer they are, so that the file stays small.

CGROUPS=/sys/fs/cgroup
SAMPLE_FIRST_S=2 # a run that is over by then needs none
SAMPLE_S=10
SAMPLE_NAP_S=5  # how soon it sees that the supervisor is gone
SAMPLES=360     # after so many, the pause between them doubles
COST_MS=5       # of each second
WALL=10         # a program that hangs gets so many times the pause that it took

# start_sampler KIND DEVICES: in a session of its own, by which all of it is found at the end. It has no mark of the run.
start_sampler() {
    find_group
    find_kills
    printf '%s\n' "start $(date +%s) kind=$1 devices=$(printf %s "$2" | tr ' ' ',') kills=$KILLS scope=$SCOPE" >>"$ATTEMPT/$USAGE_FILE"
    setsid sh "$0" ${WITHIN:+inside} sample "$run" "$1" "$2" </dev/null >/dev/null 2>&1 &
    put "$STATE/$SAMPLER_FILE" "$(ident $!)"
}

# Whatever it waits for: its session is its own, and the number of that is not given away while anything in it lives.
end_sampler() {
    alive "$STATE/$SAMPLER_FILE" || return 0
    sampler=$PID
    kill -s KILL "$sampler" 2>/dev/null
    grep -lE "\) [A-Z] [0-9]+ [0-9]+ $sampler " /proc/[0-9]*/stat 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        kill -s KILL "$pid" 2>/dev/null
    done
}

sample() {
    run=$1 kind=$2 devices=$3
    cd /
    find_attempt "$run"
    find_group
    find_limit
    PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/local/Ascend/driver/tools
    page_kib=$(($(getconf PAGESIZE 2>/dev/null || echo 4096) / 1024))
    clock
    began=$NOW due=$((NOW + SAMPLE_FIRST_S)) pause=$SAMPLE_S taken=0 cost=0
    nap "$SAMPLE_FIRST_S"
    while alive "$STATE/$SUPERVISOR_FILE"; do
        clock
        looked=$NOW
        if [ "$NOW" -ge "$due" ]; then take_sample && choose_due; fi
        nap "$SAMPLE_NAP_S"
    done
}

# The next one would cost what this one did, and shall leave the share of all of them as it is to be. It counts from
# `looked`, since a request for the devices reads the clock again.
choose_due() {
    before=$cost
    find_cost
    clock
    taken=$((taken + 1))
    [ $((taken % SAMPLES)) -ne 0 ] || pause=$((pause * 2))
    due=$((looked + pause))
    for later in $((began + (2 * cost - before) / COST_MS)) $((NOW + WALL * (NOW - looked))); do
        [ "$due" -ge "$later" ] || due=$later
    done
}

# find_cost: in COST, the ms of CPU that this shell and its children took. Linux counts them in hundredths of a second.
find_cost() {
    { read -r stat </proc/self/stat; } 2>/dev/null || return 0
    # shellcheck disable=SC2086 # splitting into fields is the point
    set -- ${stat##*) }
    cost=$(((${12} + ${13} + ${14} + ${15}) * 10))
}

# find_limit: in LIMIT, the options that make timeout end what ignores the first signal.
find_limit() {
    LIMIT='-s KILL'
    # shellcheck disable=SC2086 # options
    timeout $LIMIT 5 true 2>/dev/null || LIMIT=
}

take_sample() {
    # shellcheck disable=SC2046 # size and time of both
    set -- $(stat -c '%s %Y' /proc/self/ "$ATTEMPT/$METRICS_FILE" 2>/dev/null)
    [ $# -ge 2 ] || return 1
    line="at $2${3:+ metrics=$3,$4} cost=$cost"
    find_kills
    find_memory
    find_own
    line="$line kills=$KILLS host=$HOST${GROUP:+ group=$GROUP} own=$OWN"
    [ "$kind" = cpu ] || add_devices
    printf '%s\n' "$line" >>"$ATTEMPT/$USAGE_FILE"
} 2>/dev/null

# find_memory: in HOST, what the host has in use and has, and in GROUP the same of the cgroup, where that has a limit.
find_memory() {
    HOST=- GROUP='' all=
    while read -r name value _; do
        case $name in
            MemTotal:) all=$value ;;
            MemAvailable:) HOST=$(((all - value) / 1024)),$((all / 1024)) && break ;;
        esac
    done </proc/meminfo
    for names in memory.current:memory.max memory.usage_in_bytes:memory.limit_in_bytes; do
        { read -r used <"$FOLDER/${names%:*}" && read -r most <"$FOLDER/${names#*:}"; } 2>/dev/null || continue
        # Without a limit there is a word, or a number that no machine has.
        case $most in *[!0-9]* | ????????????????*) ;; *) GROUP=$((used / 1048576)),$((most / 1048576)) ;; esac
    done
}

# find_group: in FOLDER, where the kernel shows the memory of the cgroup of this process, and in EVENTS the file that
# counts what it ended for lack of memory: there (SCOPE=cgroup), or on the whole host where no cgroup tells.
find_group() {
    # What a job's container is in is another group than that of the supervisor, who could not compare their counts.
    [ ! -f "$run/$DOCKER_FILE" ] || { FOLDER='' EVENTS=/proc/vmstat SCOPE=host && return; }
    memory='' unified=''
    while IFS=: read -r _ controllers path; do
        case ,$controllers, in ,,) unified=$path ;; *,memory,*) memory=$path ;; esac
    done </proc/self/cgroup
    SCOPE=cgroup
    # A container sees its own as the root of all.
    for FOLDER in "$CGROUPS/memory$memory" "$CGROUPS/memory" "$CGROUPS$unified" "$CGROUPS"; do
        for EVENTS in "$FOLDER/memory.events" "$FOLDER/memory.oom_control"; do
            ! grep -qs '^oom_kill ' "$EVENTS" || return 0
        done
    done
    FOLDER='' EVENTS=/proc/vmstat SCOPE=host
} 2>/dev/null

find_kills() {
    KILLS=-
    while read -r name value; do
        [ "$name" != oom_kill ] || { KILLS=$value && break; }
    done <"$EVENTS"
} 2>/dev/null

# Of the leader and the supervisor, before they record the end: a reader of the end sees this, too.
end_usage() {
    find_group
    find_kills
    printf '%s\n' "end kills=$KILLS" >>"$ATTEMPT/$USAGE_FILE"
} 2>/dev/null

# find_own: in PIDS, the processes of the run, and in OWN their memory, CPU time and number. Pages that several of them
# have count for each.
find_own() {
    PIDS=$(members "${run##*/}" | tr '\n' ' ')
    set --
    for pid in $PIDS; do set -- "$@" "/proc/$pid/stat"; done
    OWN=0,0,0
    [ $# -eq 0 ] || OWN=$(cat "$@" 2>/dev/null | awk -v "kib=$page_kib" '
        sub(/^.*\) /, "") && NF > 21 { pages += $22; ticks += $12 + $13 + $14 + $15; count++ }
        END { printf "%d,%.0f,%d", pages * kib / 1024, ticks * 10, count }')
}

# add_devices: what the vendor's program says of the devices of the run.
add_devices() {
    clock
    asked=$NOW told='' says=unreadable
    case $kind in
        npu) program=npu-smi ;;
        *) program=nvidia-smi ;;
    esac
    if command -v "$program" >/dev/null; then told=$("${kind}_table" | tell_devices); else says=missing; fi
    clock
    [ $((NOW - asked)) -lt "$FOREIGN_S" ] || says=silent
    line="$line${told:- says=$says}"
}

cuda_table() {
    cuda_rows --query-gpu=uuid,memory.used,memory.total,utilization.gpu,temperature.gpu | sed 's/^/chip /'
    cuda_rows --query-compute-apps=gpu_uuid,pid,used_memory | sed 's/.*/process & -/'
}

# Whose memory it is, pids tell. In a container they may be the host's: where one is of no process here, it is unknown.
tell_devices() {
    awk -v "devices=$devices" -v "own=$PIDS" -v "within=$WITHIN" '
        function number(text) { return text ~ /^[0-9]+(\.[0-9]+)?$/ ? int(text) : "-" }
        function is_here(pid, line) { return (getline line <("/proc/" pid "/stat")) > 0 }
        BEGIN { split(own, list, " "); for (i in list) mine[list[i]] = 1 }
        $1 == "chip" { chip[$2] = number($3) "," number($4) "," number($5) "," number($6) }
        $1 == "process" {
            pid = within != "" || !is_here($3) ? $5 : $3
            if (pid in mine) ours[$2] += $4
            else if (pid == $3 || (within != "" && pid != "-")) others[$2] += $4
            else hidden[$2] = 1
        }
        END {
            count = split(devices, device, " ")
            for (i = 1; i <= count; i++) {
                n = device[i]
                if (n in chip) printf " d%s=%s,%s", n, chip[n], n in hidden ? "-,-" : ours[n] + 0 "," others[n] + 0
            }
        }'
}
