"""Small problems that between them run every CUDA kernel, at the edges of its tiles."""

from itertools import product

from problems import Problem, same


def twice(*problems: Problem) -> list[Problem]:
    """Each, and once more: tensors of every other problem are aligned (sanitize.py)."""
    return [problem for each in problems for problem in (each, each)]


# Between them they take every compiled tile of im2win, im2win_fused, im2win_fused_mma,
# im2win_stem, im2win_fma, grouped, pointwise, pointwise_mma and windows_mma on an H200, and every
# way of staging: boxes and runs, rows and strips, with raw lines and without, one slab and several,
# filters that stay and that come by turns, packed and in place, one image a tile and more.
DENSE = [
    Problem(n=2, c=17, h=27, w=4, k=8, r=5, stride=(2, 2)),
    Problem(n=2, c=6, h=6, w=40, k=21, r=5, s=2, groups=3),
    Problem(n=9, c=21, h=22, w=56, k=3, r=3, s=1, groups=3),
    Problem(n=5, c=1, h=29, w=50, k=130, r=1, s=2),
    Problem(n=3, c=16, h=1, w=1, k=63, s=2, stride=(2, 2), padding=same(2)),
    Problem(c=33, w=42, k=1, stride=(2, 2), padding=same(1)),
    Problem(n=5, c=12, h=31, w=43, k=3, r=1, padding=same(1), groups=3),
    Problem(n=9, c=4, h=36, w=44, k=129, r=1, s=1, padding=same(2)),
    Problem(n=3, c=9, h=3, w=39, k=1, r=1, stride=(2, 2), padding=same(1), dilation=(2, 2)),
    Problem(n=5, c=40, h=11, w=60, k=1, s=2, stride=(2, 2), padding=same(1)),
    Problem(n=3, c=3, h=40, w=31, k=390, r=1, s=1, stride=(2, 2), padding=same(1), groups=3),
    Problem(n=5, c=21, h=14, w=50, k=387, r=1, s=1, padding=same(2), groups=3),
    Problem(n=9, c=1, h=35, w=48, k=97, r=1, padding=same(1)),
    Problem(n=5, c=40, h=40, w=39, k=7, r=1, s=2, padding=same(2), dilation=(2, 2)),
    Problem(n=9, c=120, h=40, w=36, k=27, r=1, stride=(2, 2), groups=3),
    Problem(n=9, c=3, h=37, w=25, k=130, s=2, padding=same(1)),
    Problem(c=16, h=8, w=16, k=128),
    Problem(n=2, c=64, h=12, w=12, k=136, padding=same(1)),
    Problem(n=2, c=128, h=9, w=9, k=72),
    # Of im2win_fused, rows of pixels of fewer channels than a slab has, in NCHW.
    Problem(c=24, h=14, w=20, k=136, r=1, s=1),
    Problem(c=8, h=12, w=24, k=48, r=1, s=1),
    # And of images that are words of 8 bytes, of 4, and of none, by few columns a tile and by many.
    # Every other one is aligned in NCHW.
    *twice(
        Problem(n=5, c=72, h=14, w=14, k=136, r=1, s=1),
        Problem(n=4, c=130, h=6, w=11, k=200, r=1, s=1),
        Problem(n=6, c=88, h=7, w=9, k=264, r=1, s=1),
        Problem(n=33, c=72, h=14, w=14, k=264, r=1, s=1),
        Problem(n=66, c=24, h=14, w=14, k=200, r=1, s=1),
        Problem(n=66, c=40, h=10, w=13, k=136, r=1, s=1),
    ),
    # And of every other pixel in words of 16 bytes, which end with a row and do not, and of 8, one
    # by one, of every third, and of whole rows; of one image a tile and of several.
    *twice(
        Problem(n=3, c=72, h=16, w=32, k=136, r=1, s=1, stride=(2, 2)),
        Problem(n=9, c=40, h=10, w=12, k=72, r=1, s=1, stride=(2, 2)),
        Problem(n=5, c=130, h=14, w=14, k=200, r=1, s=1, stride=(2, 2)),
        Problem(n=4, c=88, h=9, w=11, k=264, r=1, s=1, stride=(2, 2)),
        Problem(n=2, c=48, h=13, w=26, k=72, r=1, s=1, stride=(3, 3)),
        Problem(n=4, c=64, h=12, w=24, k=130, r=1, s=1, stride=(2, 1)),
        Problem(c=1000, h=14, w=14, k=256, r=1, s=1, stride=(2, 2)),
    ),
    # Of im2win_fused in TF32, windows from lines, in NCHW: of pixels and of taps, of rows, planes
    # and several images, of odd planes, strides and dilations, channels that end amid a slab,
    # filters amid a tile, and tiles amid words. Every other one is aligned.
    *twice(
        Problem(n=3, c=40, h=20, w=28, k=64, r=1, s=1),
        Problem(n=5, c=70, h=14, w=14, k=136, r=1, s=1),
        Problem(n=33, c=40, h=9, w=11, k=260, r=1, s=1),
        Problem(n=66, c=36, h=7, w=7, k=260, r=1, s=1),
        Problem(n=10, c=36, h=50, w=52, k=40, r=1, s=1),
        Problem(n=20, c=36, h=26, w=34, k=200, r=1, s=1, stride=(2, 2)),
        Problem(n=10, c=36, h=33, w=40, k=256, r=1, padding=((0, 0), (1, 1)), dilation=(1, 2)),
        Problem(n=10, c=36, h=33, w=40, k=260, r=1, padding=((0, 0), (1, 1)), dilation=(1, 2)),
        Problem(n=40, c=64, h=19, w=40, k=128, r=2, s=2, stride=(2, 2)),
        Problem(n=3, c=64, h=24, w=40, k=24, r=1, s=1, groups=2),
    ),
    # Of im2win_fused, rows of patches as channels, in NCHW.
    Problem(n=3, c=3, h=64, w=112, k=136, r=16, s=16, stride=(16, 16)),
    Problem(n=2, c=3, h=42, w=56, k=72, r=14, s=14, stride=(14, 14)),
    Problem(n=2, c=16, h=24, w=48, k=130, r=8, s=8, stride=(8, 8)),
    # Of im2win_fused, warpgroups that take turns, with several tiles a block, and sets of filters.
    Problem(n=12, c=16, h=60, w=60, k=64, padding=same(1)),
    Problem(n=5, c=16, h=60, w=60, k=136, padding=same(1)),
    # Of im2win_fused, more than 200 columns a tile of 64 filters and of 128.
    Problem(n=24, c=16, h=20, w=28, k=130, padding=same(1)),
    Problem(n=100, c=8, h=34, w=7, k=72, s=1),
    # Of im2win_fused in float32, 168 columns a tile.
    Problem(n=16, c=8, h=14, w=56, k=256),
    Problem(n=48, c=8, h=14, w=56, k=64),
    # Of im2win_fused in float32, slabs that are held: parts of rows, rows, images and strides.
    Problem(n=12, c=100, h=20, w=20, k=130, r=1, s=1),
    Problem(n=20, c=72, h=14, w=15, k=264, r=1, s=1),
    Problem(n=30, c=200, h=7, w=7, k=300, r=1, s=1),
    Problem(n=6, c=136, h=40, w=42, k=129, r=1, s=1, stride=(2, 2)),
    Problem(n=12, c=200, h=28, w=28, k=50, r=1, s=1),
    Problem(n=8, c=264, h=28, w=31, k=50, r=1, s=1),
    # Both strips of im2win_stem, all numbers of a band's steps, and one, two and four strides.
    Problem(n=2, c=3, h=39, w=119, k=96, r=11, s=11, stride=(4, 4)),
    Problem(n=2, c=3, h=21, w=240, k=64, r=7, s=7, stride=(2, 2), padding=same(3)),
    Problem(n=2, c=4, h=17, w=113, k=20, padding=same(1)),
    Problem(c=1, h=19, w=60, k=70, r=5, s=5, padding=same(2)),
    Problem(n=2, c=8, h=18, w=64, k=130, r=4, s=4, stride=(4, 4), groups=2),
    # Of im2win_stem, 65 to 96 filters, and images of fewer rows than a block has warpgroups.
    Problem(n=2, c=3, h=23, w=263, k=90, r=11, s=11, stride=(4, 4)),
    Problem(n=3, c=8, h=20, w=140, k=160, r=7, s=7, stride=(2, 2), padding=same(3), groups=2),
    Problem(n=300, c=3, h=3, w=70, k=20),
    # Of im2win_stem, rows that each warpgroup has of its own, which begin anywhere in a sector of
    # memory. Every other one is aligned in NCHW.
    *twice(
        Problem(n=40, c=3, h=46, w=118, k=20, padding=same(1)),
        Problem(n=40, c=3, h=46, w=119, k=20),
        Problem(n=44, c=2, h=80, w=243, k=36, r=7, s=7, stride=(2, 2)),
    ),
    # Of im2win_stem, whole windows of 3 x 3: rows of them and, in NCHW, runs of planes that are
    # words of one to eight elements. Every other one is aligned in NCHW.
    *twice(
        Problem(n=3, c=3, h=34, w=114, k=64),
        Problem(n=2, c=3, h=46, w=226, k=72, stride=(2, 2), padding=same(1)),
        Problem(n=2, c=2, h=47, w=113, k=130, padding=same(1)),
        Problem(n=2, c=1, h=61, w=112, k=20, padding=same(1)),
        Problem(n=2, c=6, h=24, w=230, k=36, stride=(1, 2), groups=2),
        # Those that come in pairs begin at a word or amid one; two channels do not.
        Problem(n=2, c=3, h=24, w=112, k=64, padding=same(1)),
        Problem(n=2, c=3, h=33, w=120, k=64, stride=(2, 2)),
        Problem(n=3, c=3, h=40, w=115, k=64, padding=same(1)),
        # Narrow rows, of which a band has several in NHWC.
        Problem(n=3, c=3, h=23, w=32, k=64, padding=same(1)),
        Problem(n=2, c=3, h=52, w=38, k=136, stride=(2, 2), padding=same(1)),
    ),
    # Planes that come as boxes of lines: by themselves, two and eight together, in parts, and with
    # other rows between. Every other one is aligned in NCHW.
    *twice(
        Problem(n=5, c=64, h=7, w=7, k=72, padding=same(1)),
        Problem(n=3, c=64, h=14, w=14, k=136, padding=same(1)),
        Problem(n=3, c=72, h=12, w=12, k=130),
        Problem(n=2, c=64, h=28, w=28, k=128, stride=(2, 2), padding=same(1)),
        Problem(n=2, c=128, h=28, w=28, k=64, r=1, s=1),
        Problem(n=3, c=32, h=24, w=20, k=40, r=5, s=5, padding=same(2)),
    ),
    # Of im2win_fused with 16 bits in NCHW, runs whose lines are transposed: with a table for each,
    # as they are padded, strided or dilated or have several planes, and with one for all. Every
    # other one is aligned.
    *twice(
        Problem(n=2, c=128, h=11, w=16, k=20, s=5, padding=same(2)),
        Problem(c=64, h=22, w=44, k=20, r=5, s=7, padding=same(6)),
        Problem(n=2, c=64, h=7, w=38, k=20, r=1, dilation=(6, 6)),
        Problem(c=16, h=18, w=78, k=20),
        Problem(n=3, c=64, h=32, w=83, k=20, r=5, stride=(2, 2), padding=same(2)),
        Problem(n=3, c=64, h=20, w=67, k=300, r=1, padding=same(2)),
        Problem(c=128, h=44, w=21, k=300, padding=same(1)),
        Problem(n=8, c=16, h=42, w=68, k=64, r=1, padding=same(1), dilation=(6, 6)),
        Problem(n=8, c=16, h=8, w=83, k=512, r=1, s=7, padding=same(1)),
        Problem(n=8, c=16, h=29, w=88, k=130, r=1, s=5, stride=(2, 2), padding=same(2)),
    ),
    # Rows of pixels in NCHW, with all shapes of tiles, and ends of rows, channels and filters.
    *twice(
        Problem(n=3, c=128, h=16, w=16, k=256, r=1, s=1),
        Problem(c=512, h=28, w=28, k=128, r=1, s=1),
        Problem(n=3, c=40, h=15, w=8, k=200, r=1, s=1),
        Problem(n=36, c=64, h=28, w=28, k=100, r=1, s=1),
        Problem(n=96, c=40, h=16, w=16, k=20, r=1, s=1),
        Problem(n=4, c=128, h=12, w=10, k=256, r=1, s=1, groups=2),
        Problem(n=36, c=128, h=28, w=28, k=200, r=1, s=1),
    ),
    # Few tiles of many slabs, which clusters of two, four and eight blocks share out.
    *twice(
        Problem(c=512, h=7, w=7, k=72, padding=same(1)),
        Problem(n=2, c=1000, h=8, w=8, k=130, r=1, s=1),
        Problem(n=8, c=2048, h=7, w=7, k=300, r=1, s=1),
        Problem(c=1024, h=16, w=16, k=256, r=1, s=1),
        Problem(n=2, c=992, h=16, w=8, k=200, r=1, s=1),
        Problem(c=256, h=14, w=14, k=512, stride=(2, 2), padding=same(1)),
        Problem(n=3, c=130, h=9, w=11, k=40, r=5, s=5, groups=2),
    ),
    # Pixels of channels that are no whole sectors, whose windows pairs of blocks share, in 16 bits
    # and in TF32: even numbers of tiles of filters and odd ones, one tile a block and several, and
    # strides.
    *twice(
        Problem(n=5, c=200, h=9, w=9, k=264, r=1, s=1),
        Problem(n=2, c=328, h=23, w=23, k=520, r=1, s=1),
        Problem(n=12, c=200, h=19, w=19, k=200, r=1, s=1),
        Problem(n=48, c=104, h=28, w=28, k=256, r=1, s=1),
        Problem(n=3, c=56, h=11, w=11, k=264, stride=(2, 2), padding=same(1)),
        Problem(c=28, h=8, w=8, k=300, stride=(2, 2), padding=same(1)),
        Problem(n=12, c=52, h=15, w=15, k=264, r=1, s=1),
    ),
    # Of im2win_fma, one to eight filters, planes and vectors of channels, several chunks, splits of
    # them, and windows that step over columns. Every other one is aligned.
    *twice(
        Problem(n=2, c=32, h=19, w=37, k=1, r=4, s=4, padding=same(1)),
        Problem(n=2, c=24, h=17, w=70, k=2, r=1, s=1),
        Problem(n=2, c=16, h=40, w=37, k=3, padding=same(1)),
        Problem(n=2, c=48, h=20, w=20, k=4, r=5, s=6, stride=(2, 2), padding=same(2)),
        Problem(n=2, c=40, h=9, w=33, k=16, r=2, s=7, stride=(1, 3), groups=2),
        Problem(n=2, c=40, h=15, w=30, k=2),
    ),
    # Of im2win_fma, windows of few elements: all depths, one tile a block and several, ends of
    # pixels and of filters, words of either and none. Every other one is aligned.
    *twice(
        Problem(n=30, c=1, h=120, w=120, k=9, padding=same(1)),
        Problem(n=2, c=3, h=40, w=37, k=40, r=2, s=3, groups=1, dilation=(1, 2)),
        Problem(n=3, c=3, h=41, w=60, k=36, stride=(2, 2), padding=same(1)),
        Problem(n=3, c=4, h=21, w=30, k=40, padding=same(1)),
        Problem(n=2, c=9, h=19, w=23, k=21, r=2, s=2),
        Problem(n=2, c=24, h=17, w=19, k=280, r=2, s=2, groups=2),
    ),
    # Of implicit_gemm_tiled, large tiles of one filter of pixels.
    Problem(c=2, h=93, w=93, k=1, r=1, s=1),
    # Of im2win_fused with 16 bits in NCHW, tiles of 256 filters, whole ones and others.
    Problem(n=40, c=64, h=14, w=14, k=200, r=1, s=1),
    Problem(n=33, c=64, h=28, w=28, k=300, r=1, s=1, stride=(2, 2)),
    Problem(n=40, c=64, h=9, w=9, k=512, stride=(2, 2), padding=same(1)),
    # Of im2win_fused with 16 bits in NCHW, tiles of all pixels of one image and of several, even
    # and odd, whose planes leave as words; and last filters and images that are fewer.
    *twice(
        Problem(n=70, c=16, h=12, w=12, k=136),
        Problem(n=57, c=16, h=7, w=7, k=520, padding=same(1)),
        Problem(n=91, c=32, h=5, w=5, k=256, groups=2),
        Problem(n=80, c=16, h=14, w=14, k=128, r=1, s=1),
    ),
    # Of im2win_fused with 16 bits and in TF32, 240 columns a tile of 128 filters.
    *[Problem(n=8, c=16, h=60, w=60, k=128, padding=same(1))] * 2,
    # Of im2win_fused with 16 bits in NHWC, channels that are copied 8 and 4 bytes at a time, and
    # pixels of filters that leave one, two and four at a time, of up to 32 filters a warpgroup and
    # of more.
    *twice(
        Problem(n=3, c=116, h=14, w=14, k=58, r=1, s=1),
        Problem(n=3, c=18, h=20, w=20, k=18, padding=same(1)),
        Problem(n=3, c=12, h=16, w=18, k=44, stride=(2, 2), padding=same(1)),
        Problem(n=5, c=64, h=24, w=24, k=3, r=1, s=1),
        Problem(n=2, c=64, h=40, w=40, k=255, r=1, s=1),
        Problem(n=2, c=40, h=22, w=22, k=12, padding=same(1)),
    ),
    # Of im2win_fused in NHWC, slabs of fewer channels than they have room for, as filters need no
    # packing then; and, in TF32, channels that are copied a word, half of it and one at a time.
    *twice(
        Problem(n=2, c=24, h=24, w=24, k=144, r=1, s=1),
        Problem(n=2, c=8, h=20, w=28, k=72, padding=same(1)),
        Problem(n=2, c=12, h=20, w=24, k=40, stride=(2, 2), padding=same(1)),
        Problem(n=3, c=66, h=14, w=14, k=72, padding=same(1)),
        Problem(n=3, c=65, h=14, w=14, k=130, r=1, s=1),
    ),
    # Of im2win_fused in NHWC, windows of whole steps, whose columns are channels: patches, a
    # window's rows side by side, and windows of two steps.
    *twice(
        Problem(n=5, c=16, h=16, w=20, k=64, r=4, s=4, stride=(4, 4)),
        Problem(n=3, c=3, h=48, w=48, k=40, r=16, s=16, stride=(16, 16)),
        Problem(n=2, c=3, h=64, w=32, k=20, r=32, s=32, stride=(32, 32)),
        Problem(n=2, c=3, h=28, w=29, k=20, r=14, s=14, stride=(14, 14)),
        Problem(n=3, c=4, h=20, w=24, k=32, r=8, s=8, stride=(4, 4), padding=same(4)),
    ),
    # Of pointwise, all shapes of filters, and splits of them; what comes as boxes and by words of
    # all sizes, rows of 32 to 128 bytes, several tiles a block; what leaves as boxes, runs, pairs
    # and words.
    *twice(
        Problem(n=2, c=8, h=200, w=170, k=24, r=1, s=1),
        Problem(n=2, c=24, h=200, w=170, k=64, r=1, s=1),
        Problem(n=2, c=40, h=200, w=170, k=17, r=1, s=1),
        Problem(n=3, c=72, h=30, w=31, k=96, r=1, s=1),
        Problem(n=3, c=130, h=20, w=21, k=120, r=1, s=1),
        Problem(n=3, c=66, h=20, w=21, k=150, r=1, s=1),
        Problem(n=3, c=12, h=20, w=21, k=192, r=1, s=1),
        Problem(n=3, c=200, h=23, w=21, k=255, r=1, s=1),
        Problem(n=2, c=129, h=20, w=9, k=330, r=1, s=1),
        Problem(n=2, c=64, h=20, w=9, k=333, r=1, s=1),
    ),
    # Of pointwise_mma, passes of one, two and four times 16 filters, several passes, and parts;
    # words of all sizes.
    *twice(
        *(
            Problem(n=2, c=4, h=h, w=w, k=k, r=1, s=1)
            for (h, w), k in product([(200, 208), (198, 202), (199, 201)], [10, 30, 60])
        ),
        Problem(n=1, c=17, h=100, w=104, k=256, r=1, s=1),
        Problem(n=3, c=4, h=98, w=102, k=100, r=1, s=1),
        Problem(n=3, c=4, h=99, w=101, k=100, r=1, s=1),
        Problem(n=3, c=20, h=200, w=208, k=130, r=1, s=1),
        Problem(n=2, c=37, h=20, w=21, k=100, r=1, s=1),
    ),
    # Of windows_mma, passes of one, two and four times 16 filters, several passes, and parts; words
    # of all sizes, steps that are not full, several tiles a warp.
    *twice(
        Problem(n=2, c=8, h=200, w=208, k=10, padding=same(1)),
        Problem(n=2, c=4, h=198, w=202, k=30, padding=same(1)),
        Problem(n=3, c=6, h=199, w=201, k=60, r=2, s=5, stride=(2, 1)),
        Problem(n=1, c=5, h=99, w=101, k=256, stride=(1, 2), padding=same(1)),
        Problem(n=3, c=16, h=40, w=42, k=130, padding=same(2), dilation=(2, 3)),
        Problem(n=2, c=40, h=20, w=21, k=100, r=1, s=4),
    ),
    # Of grouped, sets of 8 to 32 filters, of one group and of several, slabs that are not full,
    # one box a block and more, taps that share pixels and that do not.
    *twice(
        Problem(n=2, c=128, h=17, w=30, k=128, padding=same(1), groups=32),
        Problem(n=3, c=72, h=14, w=14, k=72, padding=same(1), groups=9),
        Problem(n=40, c=176, h=29, w=31, k=176, padding=same(1), groups=11),
        Problem(n=2, c=96, h=33, w=20, k=48, r=4, s=5, stride=(2, 2), groups=6),
        Problem(n=2, c=72, h=21, w=19, k=72, stride=(2, 2), padding=same(1), groups=3),
        Problem(n=40, c=160, h=15, w=16, k=160, padding=same(2), dilation=(2, 2), groups=5),
        Problem(c=24, h=9, w=50, k=24, r=1, s=7, stride=(1, 3), dilation=(1, 2), groups=12),
    ),
    # Padding past 2^29 makes the transform count in 64 bits.
    Problem(c=2, h=3, w=5, k=4, r=1, s=2, stride=(2**29, 1), padding=((2**29, 0), (1, 0))),
]
DEPTHWISE = [
    *(
        Problem(n=n, c=c, h=h, w=w, k=c, r=r, s=r, stride=stride, padding=same(r // 2), groups=c)
        for r, stride in product((3, 5), ((1, 1), (2, 2)))
        for n, c, h, w in ((2, 40, 17, 23), (3, 16, 7, 7), (1, 7, 15, 33))
    ),
    # By tensor cores in NCHW: several images and channels at a time, parts of planes, and rows that
    # are copied 4, 8 and 16 bytes at a time.
    *(
        Problem(n=n, c=c, h=h, w=w, k=c, r=r, s=r, padding=same(r // 2), groups=c)
        for r, n, c, h, w in (
            (3, 4, 9, 12, 12),
            (3, 3, 2, 57, 64),
            (5, 16, 6, 14, 14),
            (5, 2, 5, 28, 28),
            (5, 1, 3, 70, 56),
        )
    ),
    # Rows of planes of 16 images as rows of one factor: whole planes and parts, images that are not
    # there.
    *(
        Problem(n=n, c=c, h=h, w=w, k=c, r=r, s=r, stride=stride, padding=same(r // 2), groups=c)
        for n, c, h, w, r, stride in (
            (30, 8, 9, 20, 5, (2, 2)),
            (16, 4, 28, 28, 3, (2, 2)),
            (15, 2, 18, 16, 3, (2, 2)),
            (64, 4, 14, 14, 3, (1, 1)),
            (70, 4, 14, 14, 5, (1, 1)),
            (70, 8, 9, 10, 5, (1, 1)),
            (16, 2, 40, 112, 5, (2, 2)),
            (12, 2, 40, 112, 5, (2, 2)),
        )
    ),
    # Planes of few elements as rows of one factor, the last images and channels fewer than others.
    *(
        Problem(n=37, c=c, h=h, w=w, k=c, r=r, s=r, stride=stride, padding=same(r // 2), groups=c)
        for c, h, w, r, stride in (
            (24, 7, 7, 5, (1, 1)),
            (20, 8, 8, 3, (1, 1)),
            (8, 5, 9, 3, (2, 2)),
            (12, 4, 14, 7, (1, 1)),
        )
    ),
    *(Problem(c=2, h=3, w=3580, k=2, r=r, s=r, padding=same(r // 2), groups=2) for r in (3, 5)),
    # 7x7 by tensor cores.
    Problem(n=2, c=24, h=23, w=28, k=24, r=7, s=7, padding=same(3), groups=24),
    # In NHWC with a stride, pixels of no whole words of 16 bytes, and dilated windows.
    Problem(c=24, h=23, w=28, k=24, r=7, s=7, stride=(2, 2), padding=same(3), groups=24),
    *(
        Problem(
            n=2, c=22, h=17, w=23, k=22, r=r, s=r, stride=stride, padding=same(r // 2), groups=22
        )
        for r, stride in product((3, 5, 7), ((1, 1), (2, 2)))
    ),
    Problem(n=3, c=24, h=17, w=23, k=24, r=5, s=5, padding=same(4), dilation=(2, 3), groups=24),
    # Any window: one pass of taps and several, strides and dilations, parts of planes.
    Problem(n=2, c=20, h=23, w=29, k=20, r=7, s=7, padding=same(3), groups=20),
    Problem(c=12, h=70, w=130, k=12, r=9, s=11, padding=same(5), groups=12),
    Problem(n=2, c=16, h=19, w=21, k=16, r=7, s=8, stride=(2, 2), padding=same(3), groups=16),
    Problem(n=2, c=9, h=17, w=21, k=9, padding=same(3), dilation=(2, 3), groups=9),
    Problem(c=8, h=30, w=33, k=8, r=4, s=6, stride=(3, 2), dilation=(2, 4), groups=8),
    Problem(c=18, w=700, h=1, k=18, r=1, s=31, padding=((0, 0), (15, 15)), groups=18),
    Problem(c=3, h=45, w=50, k=3, r=31, s=29, padding=same(14), groups=3),
    # And rows of several images, as those of one in NCHW.
    Problem(n=6, c=18, h=1, w=700, k=18, r=1, s=31, padding=((0, 0), (15, 15)), groups=18),
    Problem(n=21, c=5, h=1, w=301, k=5, r=1, dilation=(1, 20), groups=5),
    # Windows with little in common: words of 16 bytes and of four elements, aligned and not, lanes
    # of parts of a pixel, weights in several parts, and distances of 64 bits.
    *(
        Problem(n=2, c=c, h=14, w=16, k=c, stride=(3, 3), padding=same(1), groups=c)
        for c in (88, 12)
    ),
    Problem(c=40, h=4, w=150, k=40, r=3, s=110, stride=(2**14, 1), groups=40),
    Problem(n=2, c=5, h=6, w=7, k=5, stride=(2**31, 1), padding=((2**31, 0), (1, 1)), groups=5),
    # Several filters a channel.
    Problem(n=2, c=5, h=9, w=11, k=15, r=2, s=3, dilation=(1, 2), groups=5),
]
