/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Kinds of files, each with a way to a dataset. */
#include "data/foreign.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "data/reader.h"

#define HEAD_BYTES 512
#define MOST_SHOWN 60 /* characters of a text in a message */
#define TEXT "a table of text"

#define BY_NUMPY "then numpy.savez('FILE.npz', edge_index=.., x=.., y=.., train=.., valid=.., test=..)"
#define BY_TORCH                                                                                                       \
    "then safetensors.torch.save_file({'edge_index': .., 'x': .., 'y': .., 'train_mask': .., 'val_mask': .., "         \
    "'test_mask': ..}, 'FILE.safetensors')"
#define BY_TABLES                                                                                                      \
    "an edge list begins with a header line 'src,dst' and ends in .csv, .tsv or .txt, also with .gz; without a "       \
    "header "                                                                                                          \
    "it is DIR/raw/edge.csv, and features, labels and split go beside it"
#define UNPACK "unpack it, and give the folder that has raw/ and split/"

/* The first kind whose bytes and ending fit. */
static const struct kind {
    const char *bytes; /* that the file begins with; NULL: any */
    size_t n_bytes;
    const char *inside; /* that its first HEAD_BYTES have somewhere; NULL: any */
    const char *ending; /* NULL: any */
    const char *name;
    const char *advice;
} kinds[] = {
    {"PK\3\4", 4, "data.pkl", NULL, "a PyTorch archive", "torch.load it, " BY_TORCH},
    {NULL, 0, NULL, ".pt", "a PyTorch file", "torch.load it, " BY_TORCH},
    {NULL, 0, NULL, ".pth", "a PyTorch file", "torch.load it, " BY_TORCH},
    {"PK\3\4", 4, ".npy", NULL, "a NumPy archive", "numpy.load it, " BY_NUMPY},
    {"PK\3\4", 4, NULL, NULL, "a zip archive", UNPACK},
    {"\x27\xa1\xb4\xf6\xf0\x60\x2e\xdd", 8, NULL, NULL, "a DGL graph file", "dgl.load_graphs it, " BY_TORCH},
    {"\x93NUMPY", 6, NULL, NULL, "a NumPy array", "move it into a folder as DIR/raw/edge.npy or DIR/raw/node-feat.npy"},
    {"%%MatrixMarket", 14, NULL, NULL, "a Matrix Market file",
     "rename it to FILE.mtx, or scipy.io.mmread it, " BY_NUMPY},
    {"\x89HDF", 4, NULL, NULL, "an HDF5 file", "h5py.File it, " BY_NUMPY},
    {"PAR1", 4, NULL, NULL, "a Parquet file", "pandas.read_parquet it, " BY_NUMPY},
    {"ARROW1", 6, NULL, NULL, "a Feather file", "pandas.read_feather it, " BY_NUMPY},
    {"\x1f\x8b", 2, NULL, ".tar.gz", "a tar archive", UNPACK},
    {"\x1f\x8b", 2, NULL, ".tgz", "a tar archive", UNPACK},
    {"\x1f\x8b", 2, NULL, ".mtx.gz", "a compressed Matrix Market file", "gunzip it"},
    {"\x1f\x8b", 2, NULL, ".graph.gz", "a compressed METIS graph", "gunzip it"},
    {"\x1f\x8b", 2, NULL, NULL, "a gzip file", BY_TABLES},
    {"\x80", 1, NULL, NULL, "a Python pickle", "pickle.load it, " BY_NUMPY},
    {NULL, 0, NULL, ".tar", "a tar archive", UNPACK},
    {NULL, 0, NULL, ".zip", "a zip archive, or a part of one", UNPACK},
    {NULL, 0, "\"dtype\"", ".safetensors", "a safetensors file", "as a model it goes to --load"},
    {NULL, 0, NULL, ".bin", "a binary file", "if DGL wrote it, dgl.load_graphs it, " BY_TORCH},
    {NULL, 0, NULL, ".csv", TEXT, BY_TABLES},
    {NULL, 0, NULL, ".txt", TEXT, BY_TABLES},
    {NULL, 0, NULL, ".tsv", TEXT, BY_TABLES},
    {NULL, 0, NULL, NULL, "a file",
     "starling-data(5) says which folders and files are datasets; if another one of this name is meant, give its path, "
     "or --data-path"},
};

static bool has(const char *head, size_t n, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= n; i++) {
        if (memcmp(head + i, text, length) == 0) {
            return true;
        }
    }
    return false;
}

static bool fits(const struct kind *kind, const char *path, const char *head, size_t n)
{
    return (kind->bytes == NULL || (n >= kind->n_bytes && memcmp(head, kind->bytes, kind->n_bytes) == 0)) &&
           (kind->inside == NULL || has(head, n, kind->inside)) &&
           (kind->ending == NULL || sl_reader_ends_in(path, kind->ending));
}

/* The length of the first line of a text, but at most MOST_SHOWN. */
static int first_line(const char *head, size_t n)
{
    int length = 0;
    while (length < MOST_SHOWN && (size_t)length < n && head[length] >= ' ' && head[length] < 127) {
        length++;
    }
    return length;
}

enum sl_status sl_foreign_refuse(const char *path)
{
    char head[HEAD_BYTES];
    size_t n = 0;
    const struct kind *kind = kinds;
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        n = fread(head, 1, sizeof head, file);
        fclose(file);
    }
    while (!fits(kind, path, head, n)) { /* the last fits all */
        kind++;
    }
    if (strcmp(kind->name, TEXT) == 0 && first_line(head, n) > 0) {
        return sl_fail(SL_EFILE, "%.300s: %s that begins with '%.*s', expected a dataset: %s", path, kind->name,
                       first_line(head, n), head, kind->advice);
    }
    return sl_fail(SL_EFILE, "%.300s: %s, expected a dataset: %s", path, kind->name, kind->advice);
}
