/*
 * The program that works inside the guest, and lists directories on the host. Built statically by `cargo xtask kernel build`.
 *
 *   helper manifest DIR                       one line per entry, sorted by path: see manifest.c
 *   helper tree DIR SEED MIB                  makes a tree with every kind of entry
 *   helper churn DIR SEED PERCENT MIB         changes a tree until MIB were written, kept about PERCENT full
 *   helper fill DIR FILES                     the files of the pattern workload, 256 KiB each
 *   helper overwrite DIR PATTERN FILES MIB [SYNC_EVERY]    overwrites of 4096 bytes: seq, rnd, hcf, hcc, hci
 *   helper yielding COMMAND..., helper pressing COMMAND... as a process that gives way to all others, or to none
 */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t generator = 88172645463325252u;

uint64_t next(void)
{
	generator ^= generator << 13;
	generator ^= generator >> 7;
	generator ^= generator << 17;
	return generator;
}

uint64_t below(uint64_t n)
{
	return next() % n;
}

void die(const char *what, const char *path)
{
	fprintf(stderr, "helper: %s: %s: %s\n", what, path, strerror(errno));
	exit(1);
}

void *get(size_t bytes)
{
	void *memory = malloc(bytes ? bytes : 1);
	if (!memory)
		die("malloc", "memory");
	return memory;
}

uint64_t number(const char *text)
{
	char *end;
	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	if (errno || end == text || *end) {
		errno = EINVAL;
		die("number", text);
	}
	return value;
}

static uint32_t rotated(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

/* FIPS 180-4, 4.2.2: the constants are the first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static void compress(uint32_t state[8], const unsigned char block[64])
{
	uint32_t w[64], s[8];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t low = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
		uint32_t high = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
		w[i] = w[i - 16] + low + w[i - 7] + high;
	}
	memcpy(s, state, sizeof s);
	for (int i = 0; i < 64; i++) {
		uint32_t e = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25);
		uint32_t one = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
		uint32_t a = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22);
		uint32_t two = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof s[0]);
		s[4] += one;
		s[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

void sha256_file(const char *path, char hex[65])
{
	uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	static unsigned char buffer[65536 + 128];
	uint64_t bytes = 0;
	size_t held = 0;
	int file = open(path, O_RDONLY | O_NOFOLLOW);
	if (file < 0)
		die("open", path);
	for (;;) {
		ssize_t got = read(file, buffer + held, 65536 - held);
		if (got < 0)
			die("read", path);
		if (got == 0)
			break;
		bytes += got;
		held += got;
		size_t at = 0;
		for (; held - at >= 64; at += 64)
			compress(state, buffer + at);
		memmove(buffer, buffer + at, held - at);
		held -= at;
	}
	close(file);
	buffer[held++] = 0x80;
	while (held % 64 != 56)
		buffer[held++] = 0;
	for (int i = 0; i < 8; i++)
		buffer[held++] = bytes * 8 >> (56 - 8 * i);
	for (size_t at = 0; at < held; at += 64)
		compress(state, buffer + at);
	for (int i = 0; i < 8; i++)
		sprintf(hex + 8 * i, "%08x", state[i]);
}

int main(int count, char **words)
{
	const char *command = count > 1 ? words[1] : "";
	if (count > 2 && (!strcmp(command, "yielding") || !strcmp(command, "pressing"))) {
		schedule(command);
		return main(count - 1, words + 1);
	}
	if (count == 3 && !strcmp(command, "manifest"))
		return manifest(words[2]);
	if (count == 5 && !strcmp(command, "tree"))
		return tree(words[2], number(words[3]), number(words[4]));
	if (count == 6 && !strcmp(command, "churn"))
		return churn(words[2], number(words[3]), number(words[4]), number(words[5]));
	if (count == 4 && !strcmp(command, "fill"))
		return fill(words[2], number(words[3]));
	if ((count == 6 || count == 7) && !strcmp(command, "overwrite"))
		return overwrite(words[2], words[3], number(words[4]), number(words[5]), count == 7 ? number(words[6]) : 0);
	fprintf(stderr, "helper: the command line is not understood\n");
	return 2;
}
