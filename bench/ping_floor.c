/* The least that a round trip through the kernel takes a program: blocking send and recv, the clock
 * read before and after, nothing else. Prints the exact median in nanoseconds.
 *
 *   floor reply   udp|tcp ADDRESS PORT BYTES          answers until killed; prints "ready"
 *   floor request udp|tcp ADDRESS PORT BYTES COUNT
 *   floor request icmp    ADDRESS 0    BYTES COUNT    (a raw socket: needs CAP_NET_RAW)
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char out[65536], in[65536];

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void receive_all(int s, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        ssize_t n = recv(s, in + got, bytes - got, 0);
        must(n > 0, "recv");
        got += (size_t)n;
    }
}

static void reply(int s, int tcp, size_t bytes)
{
    int on = 1;
    if (tcp) {
        must(listen(s, 1) == 0, "listen");
        puts("ready");
        fflush(stdout);
        s = accept(s, NULL, NULL);
        must(s >= 0, "accept");
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        for (;;) {
            receive_all(s, bytes);
            must(send(s, in, bytes, MSG_NOSIGNAL) == (ssize_t)bytes, "send");
        }
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(s, in, sizeof in, 0, (struct sockaddr *)&from, &length);
        must(n >= 0, "recvfrom");
        must(sendto(s, in, (size_t)n, 0, (struct sockaddr *)&from, length) == n, "sendto");
    }
}

/* An echo request with a right checksum, the same every time; the rest of the message is zero. */
static void make_echo(void)
{
    out[0] = 8;
    uint16_t sum = htons((uint16_t)~0x0800);
    memcpy(out + 2, &sum, 2);
}

static void only_echo_replies(int s)
{
    uint32_t blocked = ~1u;
    must(setsockopt(s, 255, 1, &blocked, sizeof blocked) == 0, "ICMP_FILTER");
}

static void request(int s, int tcp, int icmp, size_t bytes, size_t count)
{
    uint64_t *rtt = calloc(count, sizeof *rtt);
    must(rtt != NULL, "calloc");
    if (icmp) {
        only_echo_replies(s);
        make_echo();
        bytes += 8;
    }
    for (size_t k = 0; k < count; k++) {
        uint64_t begin = now();
        must(send(s, out, bytes, 0) == (ssize_t)bytes, "send");
        if (tcp)
            receive_all(s, bytes);
        else
            must(recv(s, in, sizeof in, 0) >= (ssize_t)bytes, "recv");
        rtt[k] = now() - begin;
    }
    qsort(rtt, count, sizeof *rtt, compare);
    printf("%llu\n", (unsigned long long)rtt[count / 2]);
}

int main(int argc, char **argv)
{
    must(argc >= 6, "arguments");
    /* Neither outlives its caller, nor waits for ever for a message that was lost. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
    int asks = !strcmp(argv[1], "request"), tcp = !strcmp(argv[2], "tcp");
    int icmp = !strcmp(argv[2], "icmp"), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[4]))};
    must(inet_pton(AF_INET, argv[3], &address.sin_addr) == 1, "address");
    int s = icmp ? socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)
                 : socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    must(s >= 0, "socket");
    size_t bytes = (size_t)atol(argv[5]);
    if (asks) {
        must(connect(s, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        if (tcp)
            setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        request(s, tcp, icmp, bytes, argc > 6 ? (size_t)atol(argv[6]) : 10000);
    } else {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        must(bind(s, (struct sockaddr *)&address, sizeof address) == 0, "bind");
        reply(s, tcp, bytes);
    }
    return 0;
}
