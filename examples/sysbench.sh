#!/bin/sh
# Log a run of sysbench's OLTP script, with the values of its prepared statements, on a server at this machine:
#
#     examples/sysbench.sh SOCKET LOG [options of sysbench]
#
# Its root needs no password. The tables stay there, in the database sbtest: the replay takes its data from them.
set -eu
socket=$1 log=$2
shift 2
client=$(command -v mysql || command -v mariadb) || { echo 'sysbench.sh: no mysql client here' >&2 && exit 3; }

sql() { "$client" --no-defaults --user=root --socket="$socket" --skip-column-names --batch --execute="$1"; }

oltp() {
    command=$1
    shift
    bakeoff sysbench oltp_read_write --mysql-socket="$socket" --mysql-user=root --rand-seed=7 --tables=2 \
        --table-size=20000 --threads=4 --events=3000 --time=0 "$@" "$command"
}

sql 'CREATE DATABASE sbtest'
oltp prepare "$@"
written=$(sql 'SELECT @@general_log_file')
sql 'SET GLOBAL general_log = 1'
oltp run "$@"
cp "$written" "$log"
sql 'SET GLOBAL general_log = 0'
