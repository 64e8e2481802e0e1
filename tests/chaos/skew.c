/* A wall clock that is wrong: the file named by CHAOS_SKEW holds nanoseconds (a 64-bit number of this machine), which
 * are added to every answer.  Whoever writes the file moves the clock of the running program, forwards or backwards.
 * Monotonic clocks are left alone, as they are on a machine whose clock somebody sets.
 *
 * cc -shared -fPIC -O2 -o skew.so skew.c -ldl;  CHAOS_SKEW=file LD_PRELOAD=skew.so program
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;
static int (*plain)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_SKEW");
    plain = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        shift = found;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    if (!plain)
        begin();
    int answer = plain(id, t);
    if (answer == 0 && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t all = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec + *shift;
        t->tv_sec = all / 1000000000;
        t->tv_nsec = all % 1000000000;
    }
    return answer;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int answer = clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return answer;
}

time_t time(time_t *place)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}
