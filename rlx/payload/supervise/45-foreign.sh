# ---- foreign processes ---------------------------------------------------------------------------------------------
# A free device may still be in use by a program that knows nothing of leases. Where the vendor's program is missing, fails
# or hangs, this is unknown, and leases alone decide.

# find_foreign KIND: in FOREIGN, a line `<device> <pid>` for each process on a device.
find_foreign() {
    FOREIGN=
    case $1 in
        npu) FOREIGN=$(npu_processes) ;;
        cuda) FOREIGN=$(cuda_processes) ;;
    esac
    return 0
}

npu_processes() { npu_table | sed -n 's/^process \([0-9]*\) \([0-9]*\) .*/\1 \2/p'; }

cuda_processes() { cuda_rows --query-compute-apps=gpu_uuid,pid; }

# A line `chip <device> <MiB used> <MiB> <% in use> <°C>` for each chip, and `process <device> <pid> <MiB> <pid in its
# container>` for each process on one; what is no number there is not known. The table of processes names NPU and chip.
# Which device number that is, the table of chips says: in its second column (`Phy-ID`, `Device`) where an NPU may have
# several, else it is the NPU's. Formats: 310P 22.0-25.5, 910B and A3 25.x, 950 25.7.
npu_table() {
    PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/local/Ascend/driver/tools
    # shellcheck disable=SC2086 # options
    LC_ALL=C timeout ${LIMIT-} "$FOREIGN_S" npu-smi info 2>/dev/null | awk -F '|' '
        /Process id/ { processes = 1; inner = /Process id in container/; next }
        { columns = split($2, word, " ") }
        # A 950 leaves the second row of a chip without a number.
        word[1] !~ /^[0-9]+$/ && (columns || npu == "" || NF < 4) { next }
        processes {
            device = (word[1], word[2]) in number ? number[word[1], word[2]] : word[1]
            print "process", device, $3 + 0, $5 + 0, inner ? $6 + 0 : "-"
            next
        }
        { cell = $(NF - 1); split(cell, value, " ") }
        npu == "" { npu = word[1]; heat = value[2]; next }
        {
            device = columns > 1 ? word[2] : npu
            number[npu, word[1]] = device
            npu = ""
            # `AICore  [0 / 0]  used/ total`: the last pair is the memory that the programs use.
            if (cell !~ /[0-9] *\/ *[0-9]+ *$/) next
            parts = split(cell, part, "/")
            print "chip", device, last_word(part[parts - 1]), part[parts] + 0, value[1], heat
        }
        function last_word(text, words) { return words[split(text, words, " ")] }'
}

# cuda_rows QUERY: lines `<device> <value>…`. nvidia-smi names a GPU by its UUID; the driver tells which /dev/nvidia<n>
# that is.
cuda_rows() {
    query=$1
    set -- /proc/driver/nvidia/gpus/*/information
    [ -e "$1" ] || return 0
    # shellcheck disable=SC2086 # options
    timeout ${LIMIT-} "$FOREIGN_S" nvidia-smi "$query" --format=csv,noheader,nounits 2>/dev/null |
        awk -F '[:,]' '
            { gsub(/[ \t]/, "") }
            FILENAME != "-" && $1 == "GPUUUID" { uuid = $2 }
            FILENAME != "-" && $1 == "DeviceMinor" { minor[uuid] = $2 }
            FILENAME == "-" && $1 in minor { line = minor[$1]; for (i = 2; i <= NF; i++) line = line " " $i; print line }' "$@" -
}

drop_foreign() {
    kept=
    for number in $free; do
        case $NEWLINE$FOREIGN in *"$NEWLINE$number "*) ;; *) kept="$kept $number" ;; esac
    done
    free=$kept
}

# Said once in the terminal, and in a file that status reads, until it is over.
tell_foreign() {
    said=$(printf '%s\n' "$FOREIGN" | tr ' \n' ':,')
    said=${said%,}
    before=
    [ -f "$run/$FOREIGN_FILE" ] && { read -r before <"$run/$FOREIGN_FILE"; } 2>/dev/null
    [ "$said" = "$before" ] ||
        printf 'rlx: waiting: processes that are no runs of rlx use %s devices (device:pid): %s\n' "$kind" "$said"
    put "$run/$FOREIGN_FILE" "$said"
    sleep "$FOREIGN_NAP_S" 7<&- 8<&-
}
