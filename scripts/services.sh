#!/usr/bin/env bash
# Runs a command with the services that it needs, and leaves nothing behind.
#
#   scripts/services.sh run SERVICE... -- COMMAND...      SERVICE: rabbitmq redis postgres mariadb
#
# For each service, the first that fits:
#   1. LASTUNIT_TEST_<SERVICE>_URL (for rabbitmq and redis also LASTUNIT__BROKER__URL and LASTUNIT__REDIS__URL), if set;
#   2. a server on the standard local port that lets the standard local user in;
#   3. a server of its own on a free port and in a temporary folder, from Debian's package, which is installed first
#      when it is missing and root's rights are at hand. It is stopped and its folder removed when COMMAND ends.
# LASTUNIT_SERVICES=private skips 1 and 2. COMMAND finds the addresses in LASTUNIT_TEST_<SERVICE>_URL,
# LASTUNIT__BROKER__URL and LASTUNIT__REDIS__URL. The exit code is COMMAND's; 69 when a service cannot be had.
set -euo pipefail

readonly UNAVAILABLE=69 USAGE=2 START_LIMIT_S=90 STOP_LIMIT_S=20
FOLDER=""
STARTED=() # "name pid", in the sequence of their starts
EPMD_PORT=""

say() { echo "services: $*" >&2; }
die() {
    say "$1"
    exit "${2:-$UNAVAILABLE}"
}

# --- Who answers -------------------------------------------------------------------------------------------------

redis_answers() { # port
    local line=""
    { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'PING\r\n' >&3
    read -r -t 3 line <&3 || true
    exec 3>&-
    [[ $line == +PONG* ]]
}

# The AMQP handshake as far as the broker's Connection.Tune, which only comes when it lets guest in.
rabbitmq_answers() { # port
    local method=""
    { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'AMQP\0\0\11\1\1\0\0\0\0\0\44\0\12\0\13\0\0\0\0\5PLAIN\0\0\0\14\0guest\0guest\5en_US\316' >&3
    method=$(timeout 5 bash -c '
        read -r _ _ _ a b c d < <(head -c 7 <&3 | od -An -tu1)
        head -c $((a << 24 | b << 16 | c << 8 | d)) <&3 >/dev/null
        head -c 12 <&3 | od -An -tx1 | tr -d " \n"' 2>/dev/null) || true
    exec 3>&-
    [[ $method == ce010000????????000a001e ]] # frame end; method frame, channel 0, size; connection.tune
}

postgres_answers() { # port user
    local may
    may=$(PGCONNECT_TIMEOUT=3 psql -w -h 127.0.0.1 -p "$1" -U "$2" -d postgres -tAc \
        'select rolcreatedb or rolsuper from pg_roles where rolname = current_user' 2>/dev/null) || return 1
    [[ $may == t ]]
}

mariadb_answers() { # port
    mariadb --no-defaults -h 127.0.0.1 -P "$1" -u root --connect-timeout=3 -e 'select 1' >/dev/null 2>&1
}

# --- Starting one ------------------------------------------------------------------------------------------------

free_port() {
    local port
    for _ in {1..200}; do
        # Below the range from which outgoing connections take theirs.
        port=$((RANDOM % 12000 + 20000))
        { : <>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || { echo "$port" && return; }
    done
    die "no free port found"
}

need() { # program package
    [[ -x $(command -v "$1" 2>/dev/null) ]] || install_package "$2"
    [[ -x $(command -v "$1" 2>/dev/null) ]] || die "$2 is installed, but $1 is missing"
}

# A maintainer script would start the packaged service on its standard port; policy-rc.d is Debian's way to say no.
install_package() { # package
    local as_root=() policy=/usr/sbin/policy-rc.d ours="" failed="" hint="apt-get install $1"
    command -v apt-get >/dev/null || die "$1 is missing, and this is no Debian: install it, or say where one runs"
    if ((EUID != 0)); then
        sudo -n true 2>/dev/null || die "$1 is missing; type: sudo $hint"
        as_root=(sudo -n)
    fi
    say "$1: installing Debian's package"
    if [[ ! -e $policy ]]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin "$policy"
    fi
    apt_install "$1" || { "${as_root[@]}" apt-get update >"$FOLDER/apt.log" 2>&1 && apt_install "$1"; } || failed=yes
    [[ -z $ours ]] || "${as_root[@]}" rm -f "$policy"
    [[ -z $failed ]] || { tail -n 20 "$FOLDER/apt.log" >&2 && die "$1 cannot be installed; type: $hint"; }
}

# Uses its caller's as_root.
apt_install() { # package
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1" \
        >"$FOLDER/apt.log" 2>&1 </dev/null
}

# setsid: a Ctrl-C in the terminal is for COMMAND; the servers stop after it.
launch() { # name program...
    local name=$1
    shift
    setsid "$@" >"$FOLDER/$name.log" 2>&1 </dev/null &
    STARTED+=("$name $!")
}

await() { # name what-answers...
    local name=$1 pid=${STARTED[-1]##* } until=$((SECONDS + START_LIMIT_S))
    shift
    until "$@"; do
        if ! kill -0 "$pid" 2>/dev/null || ((SECONDS > until)); then
            say "$name does not start; its log ends:"
            tail -n 20 "$FOLDER/$name.log" >&2
            exit $UNAVAILABLE
        fi
        sleep 0.2
    done
}

start_redis() { # port
    need redis-server redis-server
    launch redis redis-server --bind 127.0.0.1 --port "$1" --save '' --appendonly no --dir "$FOLDER"
    await redis redis_answers "$1"
}

start_rabbitmq() { # port
    need /usr/lib/rabbitmq/bin/rabbitmq-server rabbitmq-server
    local home=$FOLDER/rabbitmq
    mkdir -p "$home"
    EPMD_PORT=$(free_port)
    printf '' >"$home/rabbitmq.conf"
    printf '[].' >"$home/enabled_plugins"
    printf '' >"$home/rabbitmq-env.conf"
    head -c 15 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$home/.erlang.cookie"
    chmod 400 "$home/.erlang.cookie"
    launch rabbitmq env HOME="$home" ERL_EPMD_PORT="$EPMD_PORT" ERL_EPMD_ADDRESS=127.0.0.1 \
        RABBITMQ_NODENAME="lastunit-$$@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$1" \
        RABBITMQ_DIST_PORT="$(free_port)" RABBITMQ_MNESIA_BASE="$home/mnesia" RABBITMQ_LOG_BASE="$home/log" \
        RABBITMQ_PID_FILE="$home/pid" RABBITMQ_CONF_ENV_FILE="$home/rabbitmq-env.conf" \
        RABBITMQ_CONFIG_FILE="$home/rabbitmq.conf" RABBITMQ_ENABLED_PLUGINS_FILE="$home/enabled_plugins" \
        RABBITMQ_LOGS=- /usr/lib/rabbitmq/bin/rabbitmq-server
    await rabbitmq rabbitmq_answers "$1"
}

start_postgres() { # port
    # Debian keeps the server's programs out of PATH.
    local bin as_user=()
    bin=$(postgres_bin)
    [[ -n $bin ]] || install_package postgresql
    bin=$(postgres_bin)
    [[ -n $bin ]] || die "postgresql is installed, but its initdb is missing"
    mkdir -p "$FOLDER/postgres"
    if ((EUID == 0)); then # initdb refuses root
        as_user=(runuser -u postgres --)
        chown postgres "$FOLDER/postgres"
    fi
    (cd / && "${as_user[@]}" "$bin/initdb" -D "$FOLDER/postgres/data" -U postgres -A trust -E UTF8 --no-locale -N) \
        >"$FOLDER/initdb.log" 2>&1 || { tail -20 "$FOLDER/initdb.log" >&2 && die "initdb failed"; }
    launch postgres "${as_user[@]}" "$bin/postgres" -D "$FOLDER/postgres/data" -p "$1" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories="$FOLDER/postgres" -c max_connections=300
    await postgres postgres_answers "$1" postgres
}

postgres_bin() { compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -1 | xargs -r dirname; }

start_mariadb() { # port
    need mariadbd mariadb-server
    local data=$FOLDER/mariadb common=(--no-defaults "--user=$(id -un)")
    mkdir -p "$data"
    mariadb-install-db "${common[@]}" --datadir="$data" --auth-root-authentication-method=normal \
        --skip-test-db >"$FOLDER/install-db.log" 2>&1 ||
        { tail -20 "$FOLDER/install-db.log" >&2 && die "mariadb-install-db failed"; }
    launch mariadb mariadbd "${common[@]}" --datadir="$data" --socket="$data/socket" --pid-file="$data/pid" \
        --bind-address=127.0.0.1 --port="$1" --max-connections=300
    await mariadb mariadb_answers "$1"
}

# --- One service -------------------------------------------------------------------------------------------------

url_of() { # service port [user]
    case $1 in
    rabbitmq) echo "amqp://guest:guest@127.0.0.1:$2/%2f" ;;
    redis) echo "redis://127.0.0.1:$2" ;;
    postgres) echo "postgres://${3:-postgres}@127.0.0.1:$2/postgres" ;;
    mariadb) echo "mysql://root@127.0.0.1:$2/mysql" ;;
    esac
}

# Sets URL.
provide() { # service standard-port variable...
    local service=$1 port=$2 variable user
    shift 2
    if [[ ${LASTUNIT_SERVICES:-} != private ]]; then
        for variable in "$@"; do
            if [[ -n ${!variable:-} ]]; then
                URL=${!variable}
                say "$service: as $variable says"
                return
            fi
        done
        for user in postgres "$(id -un)"; do
            if "${service}_answers" "$port" "$user"; then
                URL=$(url_of "$service" "$port" "$user")
                say "$service: using the one on 127.0.0.1:$port"
                return
            fi
        done
    fi
    port=$(free_port)
    "start_$service" "$port"
    URL=$(url_of "$service" "$port")
    say "$service: started one on 127.0.0.1:$port"
}

provide_and_export() { # service
    case $1 in
    rabbitmq)
        provide rabbitmq 5672 LASTUNIT_TEST_RABBITMQ_URL LASTUNIT__BROKER__URL
        export LASTUNIT_TEST_RABBITMQ_URL=$URL LASTUNIT__BROKER__URL=$URL
        ;;
    redis)
        provide redis 6379 LASTUNIT_TEST_REDIS_URL LASTUNIT__REDIS__URL
        export LASTUNIT_TEST_REDIS_URL=$URL LASTUNIT__REDIS__URL=$URL
        ;;
    postgres)
        provide postgres 5432 LASTUNIT_TEST_POSTGRES_URL
        export LASTUNIT_TEST_POSTGRES_URL=$URL
        ;;
    mariadb)
        provide mariadb 3306 LASTUNIT_TEST_MARIADB_URL
        export LASTUNIT_TEST_MARIADB_URL=$URL
        ;;
    *) die "unknown service $1; there are rabbitmq, redis, postgres and mariadb" $USAGE ;;
    esac
}

# --- The end -----------------------------------------------------------------------------------------------------

stop_servers() {
    local index name pid until
    for ((index = ${#STARTED[@]} - 1; index >= 0; index--)); do
        read -r name pid <<<"${STARTED[index]}"
        # PostgreSQL waits for its clients on SIGTERM; SIGINT ends them.
        kill "-$([[ $name == postgres ]] && echo INT || echo TERM)" "-$pid" 2>/dev/null || continue
        until=$((SECONDS + STOP_LIMIT_S))
        while kill -0 "$pid" 2>/dev/null && ((SECONDS < until)); do sleep 0.1; done
        kill -KILL "-$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        say "$name: stopped"
    done
    STARTED=()
    [[ -z $EPMD_PORT ]] || ERL_EPMD_PORT=$EPMD_PORT epmd -kill >/dev/null 2>&1 || true
}

stop_all() {
    local status=$?
    trap '' INT TERM HUP
    stop_servers
    [[ -z $FOLDER ]] || rm -rf "$FOLDER"
    exit $status
}

main() {
    [[ ${1:-} == run ]] || die "usage: scripts/services.sh run SERVICE... -- COMMAND..." $USAGE
    shift
    local services=()
    while (($# > 0)) && [[ $1 != -- ]]; do
        services+=("$1")
        shift
    done
    (($# > 1)) || die "usage: scripts/services.sh run SERVICE... -- COMMAND..." $USAGE
    shift
    trap stop_all EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/lastunit-services.XXXXXX")
    chmod 755 "$FOLDER" # the user postgres must reach its folder inside
    local service
    for service in "${services[@]}"; do provide_and_export "$service"; done
    "$@"
}

# scripts/compat.sh takes the functions alone.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
