# The version files of driver, firmware and CANN, each after a line with its path.
for file in /usr/local/Ascend/driver/version.info /usr/local/Ascend/firmware/version.info \
    "${ASCEND_HOME_PATH:-/nowhere}"/*-linux/ascend_toolkit_install.info \
    /usr/local/Ascend/ascend-toolkit/latest/*-linux/ascend_toolkit_install.info \
    /usr/local/Ascend/cann/*-linux/ascend_toolkit_install.info \
    /usr/local/Ascend/latest/*-linux/ascend_toolkit_install.info \
    /usr/local/Ascend/ascend-toolkit/latest/version.cfg /usr/local/Ascend/cann/version.cfg; do
    [ -r "$file" ] || continue
    printf '== %s\n' "$file"
    cat "$file"
    echo
done
exit 0
