// SPDX-License-Identifier: Apache-2.0
// Holds MonetDB 11.41 (monetdbe 0.11) between two instructions of `bind_cands`: it has taken the head of a table's list of
// segments, and is about to take the table's lock. What becomes of histories then is in bench/results/tique.md.
//
//   cc -O2 -shared -fPIC -o hold.so hold_monetdb.c
//   HOLD_US=200 LD_PRELOAD=$PWD/hold.so COEVAL_HISTORY=2000 COEVAL_TIQUE_MONETDB=... (the test of histories) tique
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Where the call of pthread_mutex_lock returns to, from the start of libmonetdbsql.
static const uintptr_t OFFSET = 0x1231ea;

static int (*lock)(pthread_mutex_t *);
static uintptr_t place;
static unsigned microseconds;
static unsigned long held;

__attribute__((constructor)) static void begin(void) {
    lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    const char *given = getenv("HOLD_US");
    microseconds = given ? (unsigned)atoi(given) : 0;
}

__attribute__((destructor)) static void end(void) {
    // Zero says that the library is another one.
    if (microseconds) fprintf(stderr, "held %lu times\n", held);
}

static int is_the_place(uintptr_t back) {
    Dl_info library;
    if (place) return back == place;
    if ((back & 0xfff) != (OFFSET & 0xfff) || !dladdr((void *)back, &library)) return 0;
    if (!strstr(library.dli_fname, "libmonetdbsql") || back - (uintptr_t)library.dli_fbase != OFFSET) return 0;
    place = back;
    return 1;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (microseconds && is_the_place((uintptr_t)__builtin_return_address(0))) {
        __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
        usleep(microseconds);
    }
    if (!lock) begin();
    return lock(mutex);
}
