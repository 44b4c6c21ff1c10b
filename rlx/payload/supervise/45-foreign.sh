# ---- foreign processes ---------------------------------------------------------------------------------------------
# A free device may still be in use by somebody who knows nothing of leases. Where the vendor's program is missing, fails
# or hangs, nobody can tell, and leases alone decide.

# find_foreign KIND: in FOREIGN, a line `<device> <pid>` for each process on a device.
find_foreign() {
    FOREIGN=
    case $1 in
        npu) FOREIGN=$(npu_processes) ;;
        cuda) FOREIGN=$(cuda_processes) ;;
    esac
    return 0
}

# The table of processes names NPU and chip. Which device number that is, the table of chips says: in its second column
# (`Phy-ID`, `Device`) where an NPU may have several, else it is the NPU's. Formats: 310P 22.0-25.5, 910B and A3 25.x.
npu_processes() {
    PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/local/Ascend/driver/tools
    LC_ALL=C timeout "$FOREIGN_S" npu-smi info 2>/dev/null | awk -F '|' '
        /Process id/ { processes = 1; next }
        { columns = split($2, word, " ") }
        word[1] !~ /^[0-9]+$/ { next }
        processes { print (word[1], word[2]) in number ? number[word[1], word[2]] : word[1], $3 + 0; next }
        npu == "" { npu = word[1]; next }
        { number[npu, word[1]] = columns > 1 ? word[2] : npu; npu = "" }'
}

# nvidia-smi names a GPU by its UUID; the driver tells which /dev/nvidia<n> that is.
cuda_processes() {
    set -- /proc/driver/nvidia/gpus/*/information
    [ -e "$1" ] || return 0
    timeout "$FOREIGN_S" nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader 2>/dev/null |
        awk -F '[:,]' '
            { gsub(/[ \t]/, "") }
            FILENAME != "-" && $1 == "GPUUUID" { uuid = $2 }
            FILENAME != "-" && $1 == "DeviceMinor" { minor[uuid] = $2 }
            FILENAME == "-" && $1 in minor { print minor[$1], $2 }' "$@" -
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
