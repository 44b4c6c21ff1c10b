# The device nodes of the NPUs and of their driver, those of GPUs, and whether this user may open them.
for node in /dev/davinci[0-9]* /dev/nvidia[0-9]* /dev/davinci_manager /dev/devmm_svm /dev/hisi_hdc; do
    [ -e "$node" ] || continue
    if [ -r "$node" ] && [ -w "$node" ]; then printf '%s yes\n' "$node"; else printf '%s no\n' "$node"; fi
done
exit 0
