# The table of NPUs. `docker exec` and ssh skip profiles, so its usual folders are looked into as well.
for smi in npu-smi /usr/local/sbin/npu-smi /usr/local/bin/npu-smi /usr/local/Ascend/driver/tools/npu-smi; do
    # shellcheck disable=SC2093  # the last line is for hosts that have none of them
    if command -v "$smi" >/dev/null 2>&1; then exec "$smi" info; fi
done
echo "rlx: there is no npu-smi"
