#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Draw the first column of the README's speed table as a bar chart, an SVG on standard output.
# `make chart` writes doc/epoch-times.svg.
#
# usage: chart.sh README

set -eu

awk '
function text(x, y, look, words) {
    printf "<text x=\"%.1f\" y=\"%d\" %s %s>%s</text>\n", x, y, font, look, words
}
/^\| seconds of an epoch/ { table = 1; next }
table && !/^\|/ { exit }
table && !/^\| ---/ {
    split($0, cell, " *[|] *")
    gsub(/`/, "", cell[2])
    if (cell[3] > 0) {
        names[++n] = cell[2]
        seconds[n] = cell[3]
        most = cell[3] > most ? cell[3] : most
    }
}
END {
    left = 250
    width = 760
    height = 34 * n + 88
    font = "font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" font-size=\"15\""
    dark = "fill=\"#222222\""
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n",
        width, height, width, height
    print "<title>Seconds of an epoch, less is better</title>"
    printf "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n", width, height
    text(16, 30, dark " font-weight=\"bold\"", "Seconds of an epoch (less is better)")
    for (i = 1; i <= n; i++) {
        y = 48 + 34 * (i - 1)
        bar = (width - left - 70) * seconds[i] / most
        text(left - 12, y + 18, dark " text-anchor=\"end\"", names[i])
        printf "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"26\" fill=\"%s\"/>\n",
            left, y, bar, names[i] ~ /^Starling/ ? "#0072b2" : "#b0b0b0"
        text(left + bar + 8, y + 18, dark, seconds[i])
    }
    text(16, height - 16, "fill=\"#666666\"",
        "GraphSAGE on ogbn-arxiv: 2 layers of 128, fanout 4,4, 2048 seeds a step, two CPU cores")
    print "</svg>"
}' "$1"
