/* vcard.c: a card of one's own for every session of processes that share a real one.
 * LD_PRELOADed. What a session holds is read from NVML, by process; free memory is LAB_FREE minus that, and an allocation that would
 * pass it is refused as the driver refuses it. LAB_TOTAL: what the card says it has (bytes; 0: the real figure). LAB_FREE: bytes that
 * are free before the session opens its first context (0: everything but LAB_BASE). Nothing else of CUDA is touched. See README.md. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>
typedef unsigned long long u64;
typedef struct { unsigned pid; u64 used; unsigned gi, ci; } proc_t;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *cudart, *cuda, *nvml, *dev;
static int pid_of_nvml = 0;
static int (*processes)(void *, unsigned *, proc_t *);
static u64 known, since, total_real;   /* of the session at the last reading; allocated by this process after it */
static u64 number(const char *name) { const char *s = getenv(name); return s ? strtoull(s, 0, 10) : 0; }
static void *lib(void **at, const char *a, const char *b) {
    if (!*at) *at = dlopen(a, RTLD_NOW | RTLD_NOLOAD);
    if (!*at && b) *at = dlopen(b, RTLD_NOW | RTLD_NOLOAD);
    if (!*at) *at = dlopen(a, RTLD_NOW);
    if (!*at && b) *at = dlopen(b, RTLD_NOW);
    return *at;
}
static int on(void) { static int v = -1; const char *s; if (v < 0) { s = getenv("LAB_CARD"); v = s && *s == '1'; } return v; }
static u64 held(void) {            /* what this session's processes hold; under lock */
    if (pid_of_nvml != getpid()) { /* first use in this process, or after a fork */
        int (*init)(void), (*get)(unsigned, void **);
        nvml = 0; if (!lib(&nvml, "libnvidia-ml.so.1", 0)) return 0;
        init = dlsym(nvml, "nvmlInit_v2"); get = dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
        processes = dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
        if (!init || !get || !processes || init() || get(0, &dev)) return 0;
        pid_of_nvml = getpid(); known = since = 0;
    }
    unsigned n = 256; proc_t p[256]; u64 sum = 0; pid_t mine = getsid(0);
    if (processes(dev, &n, p)) return known + since;
    for (unsigned i = 0; i < n; i++) if (p[i].used != ~0ull && getsid((pid_t)p[i].pid) == mine) sum += p[i].used;
    known = sum; since = 0;
    return sum;
}
static u64 limit(void) {
    u64 f = number("LAB_FREE"), t = number("LAB_TOTAL"), b = number("LAB_BASE");
    const char *path = getenv("LAB_FREE_FILE"); FILE *in;   /* a neighbour that comes later: the file's figure wins */
    if (path && (in = fopen(path, "r"))) { u64 later = 0; if (fscanf(in, "%llu", &later) == 1 && later) f = later; fclose(in); }
    return f ? f : (t ? t : total_real) - b;
}
static int memget(size_t *f, size_t *t, int (*real)(size_t *, size_t *)) {
    int rc = real(f, t); if (rc || !on()) return rc;
    pthread_mutex_lock(&lock);
    total_real = *t; if (number("LAB_TOTAL")) *t = number("LAB_TOTAL");
    u64 h = held(), l = limit(); *f = l > h ? l - h : 0;
    pthread_mutex_unlock(&lock);
    return rc;
}
static int too_much(u64 size) {
    if (!on()) return 0;
    int no = 0; pthread_mutex_lock(&lock);
    u64 big = (size + (2u << 20) - 1) & ~(u64)((2u << 20) - 1);
    if (!total_real) { size_t f, t; int (*real)(size_t *, size_t *) = 0; if (lib(&cudart, "libcudart.so.13", "libcudart.so.12")) real = dlsym(cudart, "cudaMemGetInfo"); if (real && !real(&f, &t)) total_real = t; }
    u64 l = limit();
    if (pid_of_nvml != getpid() || known + since + big + (2ull << 30) > l) { if (held() + big > l) no = 1; }
    if (!no) since += big;
    pthread_mutex_unlock(&lock);
    return no;
}
int cudaMemGetInfo(size_t *f, size_t *t) {
    int (*real)(size_t *, size_t *) = 0;
    if (lib(&cudart, "libcudart.so.13", "libcudart.so.12")) real = dlsym(cudart, "cudaMemGetInfo");
    return real ? memget(f, t, real) : 999;
}
int cuMemGetInfo_v2(size_t *f, size_t *t) {
    int (*real)(size_t *, size_t *) = 0;
    if (lib(&cuda, "libcuda.so.1", 0)) real = dlsym(cuda, "cuMemGetInfo_v2");
    return real ? memget(f, t, real) : 999;
}
int cudaMalloc(void **p, size_t n) {
    static int (*real)(void **, size_t);
    if (!real && lib(&cudart, "libcudart.so.13", "libcudart.so.12")) real = dlsym(cudart, "cudaMalloc");
    if (!real) return 999;
    if (too_much(n)) return 2;   /* cudaErrorMemoryAllocation */
    return real(p, n);
}
int cuMemCreate(u64 *h, size_t n, const void *prop, u64 flags) {
    static int (*real)(u64 *, size_t, const void *, u64);
    if (!real && lib(&cuda, "libcuda.so.1", 0)) real = dlsym(cuda, "cuMemCreate");
    if (!real) return 999;
    if (too_much(n)) return 2;   /* CUDA_ERROR_OUT_OF_MEMORY */
    return real(h, n, prop, flags);
}
