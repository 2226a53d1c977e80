/* Threads, each on a CPU of its own, that take a lock so many times; with it they work, and without it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long times, inside, outside;

static void work(long n)
{
    for (; n > 0; n--)
        __asm__ volatile("" : "+r"(n));
}

static void *take(void *cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((long)cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set))
        exit(1);
    for (long i = 0; i < times; i++) {
        pthread_mutex_lock(&lock);
        work(inside);
        pthread_mutex_unlock(&lock);
        work(outside);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[8];
    long count = argc == 5 ? atol(argv[1]) : 0;

    if (count < 1 || count > 8)
        return 2;
    times = atol(argv[2]) / count;
    inside = atol(argv[3]);
    outside = atol(argv[4]);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, take, (void *)i))
            return 1;
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
