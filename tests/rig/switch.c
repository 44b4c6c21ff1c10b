// The network between the machines of the rig: one network namespace each, joined by this program.
//
//   switch COUNT
//
// Machine I in 1..COUNT has the address 10.77.0.I, machine 0 (the client) has 10.77.0.254. Each machine's only way out is
// a TUN device whose other end is read and written here, so delay, a pulled cable and a narrow line are plain code:
// netem would need a kernel module that many kernels lack.
//
// The namespaces have no names. They are reached as /proc/PID/fd/(100 + I) and end with the last process in them.
//
// Commands come on stdin, one a line, each is answered by a line "ok"; the program ends when stdin ends.
//   delay I MICROSECONDS   what a packet from or to machine I waits on its way
//   cut I 0|1              1: nothing reaches or leaves machine I
//   rate I BYTES_PER_S     how much machine I sends, and receives, in a second; 0: no limit
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_MACHINES = 250, CLIENT_ADDRESS = 254, FIRST_NAMESPACE = 100, PACKET_BYTES = 65536, BURST = 64 };

// A narrow line drops what would wait longer than this, as a real one with a full buffer does.
static const long long LONGEST_QUEUE_NS = 2000000000LL;

typedef struct packet {
    struct packet *next;
    long long due_ns;
    int length;
    unsigned char bytes[];
} packet;

typedef struct {
    int tun;
    int cut;
    long long delay_ns, bytes_per_s;
    long long sending_until_ns, receiving_until_ns;
    packet *first, *last; // on their way to this machine, by due time
} machine;

static machine machines[MAX_MACHINES + 1];
static int count;

static void die(const char *what) {
    fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// ---- the machines' side ----------------------------------------------------------------------------------------------

static void set_address(struct ifreq *request, const char *text) {
    struct sockaddr_in *address = (struct sockaddr_in *)&request->ifr_addr;
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, text, &address->sin_addr);
}

static void bring_up(int control, const char *device) {
    struct ifreq request = {0};
    strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    if (ioctl(control, SIOCGIFFLAGS, &request)) die(device);
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(control, SIOCSIFFLAGS, &request)) die(device);
}

static void configure(const char *address) {
    struct ifreq request = {.ifr_name = "eth0"};
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (control < 0) die("socket");
    set_address(&request, address);
    if (ioctl(control, SIOCSIFADDR, &request)) die("address of eth0");
    set_address(&request, "255.255.255.0");
    if (ioctl(control, SIOCSIFNETMASK, &request)) die("netmask of eth0");
    request.ifr_qlen = 5000; // the default of 500 would drop packets of a fast sender
    if (ioctl(control, SIOCSIFTXQLEN, &request)) die("queue of eth0");
    bring_up(control, "lo");
    bring_up(control, "eth0");
    close(control);
}

// A new namespace with one TUN device in it; the calling process is left in there.
static int plug_in(int number) {
    char address[32];
    struct ifreq request = {.ifr_name = "eth0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (unshare(CLONE_NEWNET)) die("new network namespace");
    int namespace = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || dup3(namespace, FIRST_NAMESPACE + number, O_CLOEXEC) < 0) die("/proc/self/ns/net");
    close(namespace);
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request)) die("/dev/net/tun");
    snprintf(address, sizeof address, "10.77.0.%d", number ? number : CLIENT_ADDRESS);
    configure(address);
    return tun;
}

// ---- the way of a packet ---------------------------------------------------------------------------------------------

static machine *receiver(const unsigned char *bytes) {
    int last = bytes[19]; // of the destination address in an IPv4 header
    if (last == CLIENT_ADDRESS) return &machines[0];
    return last >= 1 && last <= count ? &machines[last] : NULL;
}

// When a line that is busy until *until has passed on this packet; -1 if its buffer is full.
static long long through_line(long long at_ns, int length, long long bytes_per_s, long long *until) {
    if (!bytes_per_s) return at_ns;
    if (*until > at_ns + LONGEST_QUEUE_NS) return -1;
    *until = (*until > at_ns ? *until : at_ns) + length * 1000000000LL / bytes_per_s;
    return *until;
}

static void enqueue(machine *to, packet *new) {
    packet **place = &to->first;
    if (to->last && to->last->due_ns <= new->due_ns) place = &to->last->next; // nearly always
    while (*place && (*place)->due_ns <= new->due_ns) place = &(*place)->next;
    new->next = *place;
    *place = new;
    if (!new->next) to->last = new;
}

static void send_on(machine *from, const unsigned char *bytes, int length) {
    if (length < 20 || bytes[0] >> 4 != 4) return; // IPv6 of the kernel itself
    machine *to = receiver(bytes);
    if (!to || from->cut || to->cut) return;
    long long due = through_line(now_ns(), length, from->bytes_per_s, &from->sending_until_ns);
    if (due >= 0) due = through_line(due, length, to->bytes_per_s, &to->receiving_until_ns);
    if (due < 0) return;
    packet *new = malloc(sizeof *new + length);
    if (!new) die("packet");
    new->due_ns = due + from->delay_ns + to->delay_ns;
    new->length = length;
    memcpy(new->bytes, bytes, length);
    enqueue(to, new);
}

static void receive_from(machine *from) {
    unsigned char bytes[PACKET_BYTES];
    for (int i = 0; i < BURST; i++) { // then the others have their turn
        ssize_t length = read(from->tun, bytes, sizeof bytes);
        if (length <= 0) return;
        send_on(from, bytes, (int)length);
    }
}

// Hands over what is due. Returns when the next packet is, or -1.
static long long deliver_to(machine *to, long long at_ns) {
    packet *due;
    while ((due = to->first) && due->due_ns <= at_ns) {
        to->first = due->next;
        if (!to->first) to->last = NULL;
        // A cable that was pulled meanwhile loses what was on it. A failed write is a lost packet, as on any network.
        if (!to->cut && write(to->tun, due->bytes, due->length) < 0 && errno != EAGAIN && errno != EIO) perror("switch");
        free(due);
    }
    return to->first ? to->first->due_ns : -1;
}

static long long deliver_all(void) {
    long long at_ns = now_ns(), next = -1;
    for (int i = 0; i <= count; i++) {
        long long due = deliver_to(&machines[i], at_ns);
        if (due >= 0 && (next < 0 || due < next)) next = due;
    }
    return next;
}

// ---- commands --------------------------------------------------------------------------------------------------------

static void obey(const char *line) {
    char what[16];
    int number;
    long long value;
    if (sscanf(line, "%15s %d %lld", what, &number, &value) != 3 || number < 0 || number > count) {
        printf("switch: cannot do: %s\n", line);
    } else {
        machine *one = &machines[number];
        if (!strcmp(what, "delay")) one->delay_ns = value * 1000;
        if (!strcmp(what, "cut")) one->cut = value != 0;
        if (!strcmp(what, "rate")) one->bytes_per_s = value;
        printf("ok\n");
    }
    fflush(stdout);
}

// Returns 0 at the end of stdin.
static int obey_stdin(void) {
    static char text[4096];
    static size_t held;
    ssize_t got = read(STDIN_FILENO, text + held, sizeof text - 1 - held);
    if (got <= 0) return got < 0 && errno == EINTR;
    held += got;
    text[held] = 0;
    char *line = text, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        obey(line);
    }
    held -= line - text;
    memmove(text, line, held);
    return 1;
}

static int wait_for_something(struct pollfd *polled, long long next_ns) {
    struct timespec timeout, *limit = NULL;
    if (next_ns >= 0) {
        long long wait = next_ns - now_ns();
        if (wait < 0) wait = 0;
        timeout = (struct timespec){wait / 1000000000LL, wait % 1000000000LL};
        limit = &timeout;
    }
    return ppoll(polled, count + 2, limit, NULL);
}

int main(int argc, char **argv) {
    static struct pollfd polled[MAX_MACHINES + 2];
    count = argc == 2 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MAX_MACHINES) {
        fprintf(stderr, "usage: switch COUNT (1 to %d)\n", MAX_MACHINES);
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); // otherwise every packet is 50 us late
    for (int i = 0; i <= count; i++) {
        machines[i].tun = plug_in(i);
        polled[i] = (struct pollfd){machines[i].tun, POLLIN, 0};
    }
    polled[count + 1] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    printf("ok\n");
    fflush(stdout);
    for (;;) {
        if (wait_for_something(polled, deliver_all()) < 0) continue;
        if (polled[count + 1].revents && !obey_stdin()) return 0;
        for (int i = 0; i <= count; i++)
            if (polled[i].revents & POLLIN) receive_from(&machines[i]);
    }
}
