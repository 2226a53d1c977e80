/* What two CPUs see of each other: messages, a flag in memory, locks, clocks. One line a figure: NAME VALUE. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define ROUNDS 600
#define WARM 50
#define SPINS 1000
#define CLOCKS 3000
#define CONTEND_NS 4000000ll

struct worker {
    int cpu;
    int inside, outside;
    uint64_t done;
    int64_t took;
};

static pthread_barrier_t start;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int64_t released, overlap;
static volatile uint64_t flag __attribute__((aligned(64)));
static volatile int guard;
static volatile uint64_t last_tsc, tsc_back;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void bind(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        perror("binding to a CPU");
        exit(1);
    }
}

static void work(long n)
{
    for (; n > 0; n--)
        __asm__ volatile("" : "+r"(n));
}

static void pass(ssize_t done)
{
    if (done <= 0) {
        perror("a pipe");
        exit(1);
    }
}

/* A byte there and back. */
static void round_trip(const char *name, int cpu, int other)
{
    int there[2], back[2];
    char c = 0;
    int64_t began = 0;

    pass(1 + pipe(there));
    pass(1 + pipe(back));
    fflush(stdout);
    if (!fork()) {
        bind(other);
        for (int i = 0; i < ROUNDS + WARM; i++) {
            pass(read(there[0], &c, 1));
            pass(write(back[1], &c, 1));
        }
        _exit(0);
    }
    bind(cpu);
    for (int i = 0; i < ROUNDS + WARM; i++) {
        if (i == WARM)
            began = now();
        pass(write(there[1], &c, 1));
        pass(read(back[0], &c, 1));
    }
    printf("%s %.3f\n", name, (now() - began) / 1e3 / ROUNDS);
    wait(NULL);
}

/* A message holds the time at which it was sent. */
static void one_way(void)
{
    int there[2], back[2], early = 0;
    int64_t sent, least = INT64_MAX;
    char c = 0;

    pass(1 + pipe(there));
    pass(1 + pipe(back));
    fflush(stdout);
    if (!fork()) {
        bind(0);
        for (int i = 0; i < ROUNDS; i++) {
            work(5000 + 37 * (i % 11));
            sent = now();
            pass(write(there[1], &sent, sizeof sent));
            pass(read(back[0], &c, 1));
        }
        _exit(0);
    }
    bind(1);
    for (int i = 0; i < ROUNDS; i++) {
        pass(read(there[0], &sent, sizeof sent));
        sent = now() - sent;
        early += sent < 0;
        least = sent < least ? sent : least;
        pass(write(back[1], &c, 1));
    }
    printf("one_way_least_us %.3f\nmessages_before_sent %d\n", least / 1e3, early);
    wait(NULL);
}

static void together(void *(*what)(void *), struct worker *workers, int count)
{
    pthread_t threads[2];

    pthread_barrier_init(&start, NULL, count);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, what, &workers[i]))
            exit(1);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* Each waits for the other's number. */
static void *spin(void *of)
{
    struct worker *own = of;
    int64_t began;

    bind(own->cpu);
    pthread_barrier_wait(&start);
    began = now();
    for (uint64_t i = 0; i < SPINS; i++) {
        while (flag != 2 * i + own->cpu)
            _mm_pause();
        flag = 2 * i + own->cpu + 1;
    }
    own->took = now() - began;
    return NULL;
}

static void hand_over(void)
{
    struct worker workers[2] = {{.cpu = 0}, {.cpu = 1}};

    together(spin, workers, 2);
    printf("spinning_us %.3f\n", workers[0].took / 1e3 / SPINS);
}

/* Each reads its clock after the other has, as the kernel's check_tsc_warp does. */
static void *read_clocks(void *of)
{
    struct worker *own = of;

    bind(own->cpu);
    pthread_barrier_wait(&start);
    for (long i = 0; i < CLOCKS; i++) {
        uint64_t before, tsc;

        while (__atomic_exchange_n(&guard, 1, __ATOMIC_ACQUIRE))
            _mm_pause();
        before = last_tsc;
        tsc = last_tsc = __rdtsc();
        if (tsc < before && before - tsc > tsc_back)
            tsc_back = before - tsc;
        __atomic_store_n(&guard, 0, __ATOMIC_RELEASE);
        work(1 + i % 40);
    }
    return NULL;
}

static void clocks(void)
{
    struct worker workers[2] = {{.cpu = 0}, {.cpu = 1}};

    together(read_clocks, workers, 2);
    printf("tsc_back %lu\n", tsc_back);
}

/* The lock is taken again and again; who gets it looks when it was given back. */
static void *contend(void *of)
{
    struct worker *own = of;
    int64_t end;

    bind(own->cpu);
    pthread_barrier_wait(&start);
    for (end = now() + CONTEND_NS; now() < end; own->done++) {
        int64_t early;

        pthread_mutex_lock(&mutex);
        early = released - now();
        if (early > overlap)
            overlap = early;
        work(own->inside);
        released = now();
        pthread_mutex_unlock(&mutex);
        work(own->outside);
    }
    return NULL;
}

static void lock(int inside, int outside)
{
    for (int count = 1; count <= 2; count++) {
        struct worker workers[2] = {{.cpu = 0, .inside = inside, .outside = outside},
                                    {.cpu = 1, .inside = inside, .outside = outside}};

        overlap = 0;
        together(contend, workers, count);
        printf("lock_%d_%d_on_%d_per_ms %.1f\n", inside, outside, count,
               (workers[0].done + workers[1].done) / (CONTEND_NS / 1e6));
    }
    printf("lock_%d_%d_held_twice_us %.3f\n", inside, outside, overlap / 1e3);
}

int main(void)
{
    round_trip("round_trip_on_one_us", 0, 0);
    round_trip("round_trip_us", 0, 1);
    one_way();
    hand_over();
    clocks();
    lock(500, 50);
    lock(500, 500);
    lock(0, 0);
    return 0;
}
