"""Rows of ops over images {n, c, h, w}."""
import torch
import torch.nn.functional as F

from rows import EXACT, SUMS, Noise, Row

PLACES = Noise(result=6e-7, operands=4e-6)  # Weights of neighbours are of places that are rounded.


def pictures(g):
    """Some with elements."""
    x = g.value(min_rank=4, max_rank=4)
    if 0 in g.shape(x)[1:]:
        return None
    return x


def pair(g, least, most):
    both = g.rng.randint(least, most)
    return [both, both] if g.rng.random() < 0.5 else [g.rng.randint(least, most), g.rng.randint(least, most)]


def filters(g, shape):
    g.constant |= set(shape)
    if g.rng.random() < 0.15:
        return g.leaf(shape, "f32", plain=True)
    return g.leaf(shape, g.rng.choice(["f32", "f32", "f16"]), kind="weight", plain=True)


def groups_of(g, channels):
    """One, a few, or the number of channels."""
    return g.rng.choice([1, 1, channels, g.rng.choice([n for n in range(1, channels + 1) if channels % n == 0])])


def draw_conv(g):
    x = pictures(g)
    if x is None:
        return None
    _, channels, *sides = g.shape(x)
    groups, kernel, dilation, padding = groups_of(g, channels), pair(g, 1, 5), pair(g, 1, 2), pair(g, 0, 3)
    if any(size + 2 * p < d * (k - 1) + 1 for size, k, d, p in zip(sides, kernel, dilation, padding)):
        return None
    outputs = groups * g.rng.choice([1, 1, 2, 3, 8, 17] if groups < 8 else [1, 2])
    g.constant |= {channels}
    weight = filters(g, [outputs, channels // groups, *kernel])
    bias = g.vector(outputs, 0.5)
    return [x, weight, *([bias] if bias is not None else [])], {
        "stride": pair(g, 1, 3), "padding": padding, "dilation": dilation, "groups": groups}


def conv(p, x, weight, bias=None):
    return F.conv2d(x, weight, bias, p["stride"], p["padding"], p["dilation"], p["groups"])


def draw_conv_transpose(g):
    x = pictures(g)
    if x is None:
        return None
    _, channels, *sides = g.shape(x)
    groups, kernel, dilation, stride = groups_of(g, channels), pair(g, 1, 4), pair(g, 1, 2), pair(g, 1, 3)
    padding = pair(g, 0, 2)
    more = [g.rng.randrange(max(s, d)) for s, d in zip(stride, dilation)]
    if any((n - 1) * s - 2 * p + d * (k - 1) + m + 1 <= 0
           for n, s, p, d, k, m in zip(sides, stride, padding, dilation, kernel, more)):
        return None
    outputs = g.rng.choice([1, 2, 5, 8] if groups < 8 else [1, 2])
    g.constant |= {channels}
    weight = g.leaf([channels, outputs, *kernel], g.rng.choice(["f32", "f16"]), kind="weight", plain=True)
    bias = g.vector(outputs * groups, 0.5)
    return [x, weight, *([bias] if bias is not None else [])], {
        "stride": stride, "padding": padding, "output_padding": more, "dilation": dilation, "groups": groups}


def conv_transpose(p, x, weight, bias=None):
    return F.conv_transpose2d(x, weight, bias, p["stride"], p["padding"], p["output_padding"], p["groups"], p["dilation"])


def of_signals(g):
    """{n, c, t}, some with elements."""
    x = g.value(min_rank=3, max_rank=3)
    return None if 0 in g.shape(x)[1:] else x


def draw_conv1d(g):
    x = of_signals(g)
    if x is None:
        return None
    _, channels, times = g.shape(x)
    groups, kernel, dilation, padding = groups_of(g, channels), g.rng.randint(1, 5), g.rng.randint(1, 2), g.rng.randint(0, 3)
    if times + 2 * padding < dilation * (kernel - 1) + 1:
        return None
    outputs = groups * g.rng.choice([1, 1, 2, 3, 8, 17] if groups < 8 else [1, 2])
    g.constant |= {channels}
    weight = filters(g, [outputs, channels // groups, 1, kernel])
    bias = g.vector(outputs, 0.5)
    return [x, weight, *([bias] if bias is not None else [])], {
        "stride": g.rng.randint(1, 3), "padding": padding, "dilation": dilation, "groups": groups}


def conv1d(p, x, weight, bias=None):
    return F.conv1d(x, weight.squeeze(2), bias, p["stride"], p["padding"], p["dilation"], p["groups"])


def draw_conv_transpose1d(g):
    x = of_signals(g)
    if x is None:
        return None
    _, channels, times = g.shape(x)
    groups, kernel, dilation, stride = groups_of(g, channels), g.rng.randint(1, 4), g.rng.randint(1, 2), g.rng.randint(1, 3)
    padding, more = g.rng.randint(0, 2), g.rng.randrange(max(stride, dilation))
    if (times - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1 <= 0:
        return None
    outputs = g.rng.choice([1, 2, 5, 8] if groups < 8 else [1, 2])
    g.constant |= {channels}
    weight = g.leaf([channels, outputs, 1, kernel], g.rng.choice(["f32", "f16"]), kind="weight", plain=True)
    bias = g.vector(outputs * groups, 0.5)
    return [x, weight, *([bias] if bias is not None else [])], {
        "stride": stride, "padding": padding, "output_padding": more, "dilation": dilation, "groups": groups}


def conv_transpose1d(p, x, weight, bias=None):
    return F.conv_transpose1d(x, weight.squeeze(2), bias, p["stride"], p["padding"], p["output_padding"], p["groups"],
                              p["dilation"])


def draw_pool(g):
    x = pictures(g)
    if x is None:
        return None
    kernel = pair(g, 1, 4)
    padding = [g.rng.randint(0, k // 2) for k in kernel]
    if any(size + 2 * p < k for size, k, p in zip(g.shape(x)[2:], kernel, padding)):
        return None
    return [x], {"kernel": kernel, "stride": g.rng.choice([kernel, pair(g, 1, 3)]), "padding": padding,
                 "count_padding": g.rng.random() < 0.5}


def draw_resize(scaled, corners):
    def draw(g):
        x = pictures(g)
        if x is None:
            return None
        p = {"scale": pair(g, 1, 3)} if scaled else {"size": pair(g, 1, 20)}
        return [x], p | ({"align_corners": g.rng.random() < 0.5} if corners else {})
    return draw


def size_of(p, x):
    return p["size"] if "size" in p else [n * times for n, times in zip(x.shape[2:], p["scale"])]


def nearest(p, x):
    """In 32 bits, as places are."""
    return F.interpolate(x.float(), size_of(p, x), mode="nearest").to(x.dtype)


def bilinear(p, x):
    return F.interpolate(x, size_of(p, x), mode="bilinear", align_corners=p["align_corners"])


def beside_infinite(p, x):
    """Where a neighbour's weight is 0, or nearly: that times infinity is all or nothing."""
    near = F.max_pool2d(x.isinf().double(), 3, 1, 1)
    return F.interpolate(near, size_of(p, x), mode="bilinear", align_corners=p["align_corners"]) > 0


def draw_batch_norm(g):
    x = pictures(g)
    if x is None:
        return None
    channels = g.shape(x)[1]
    g.constant |= {channels}
    variance = g.apply("square", [g.leaf([channels], "f32", plain=True)], {})
    vectors = [v for v in [g.vector(channels, 0.7)] if v is not None]
    vectors += [g.vector(channels)] if vectors and g.rng.random() < 0.7 else []
    return [x, g.vector(channels), variance, *vectors], {"eps": g.rng.choice([1e-5, 0.1])}


def batch_norm(p, x, mean, variance, weight=None, bias=None):
    return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, p["eps"])


def draw_group_norm(g):
    x = pictures(g)
    if x is None:
        return None
    n, channels, *sides = g.shape(x)
    groups = groups_of(g, channels)
    if n * channels // groups * sides[0] * sides[1] <= 1:  # Refused by torch.
        return None
    g.constant |= {channels}
    vectors = [v for v in [g.vector(channels, 0.7)] if v is not None]
    vectors += [g.vector(channels)] if vectors and g.rng.random() < 0.7 else []
    return [x, *vectors], {"groups": groups, "eps": g.rng.choice([1e-5, 0.1])}


def group_norm(p, x, weight=None, bias=None):
    if x.dtype == torch.float64:
        return F.group_norm(x, p["groups"], weight, bias, p["eps"])
    rows = x.reshape(x.shape[0] * p["groups"], -1)  # In 32 bits torch's sums are wider, and go past no largest number.
    rows = rows - rows.mean(1, keepdim=True)
    y = (rows / torch.sqrt(rows.square().mean(1, keepdim=True) + p["eps"])).reshape(x.shape)
    y = y if weight is None else y * weight.reshape(1, -1, 1, 1)
    return y if bias is None else y + bias.reshape(1, -1, 1, 1)


TABLE = [
    Row("conv2d", draw_conv, conv, SUMS, weight=4, grows=True, least=True),
    Row("conv_transpose2d", draw_conv_transpose, conv_transpose, SUMS, weight=3, grows=True, least=True),
    Row("conv1d_signals", draw_conv1d, conv1d, SUMS, weight=2, grows=True, least=True),
    Row("conv_transpose1d", draw_conv_transpose1d, conv_transpose1d, SUMS, weight=2, grows=True, least=True),
    Row("max_pool2d", draw_pool, lambda p, x: F.max_pool2d(x, p["kernel"], p["stride"], p["padding"]), weight=2, grows=True,
        least=True),
    Row("avg_pool2d", draw_pool,
        lambda p, x: F.avg_pool2d(x, p["kernel"], p["stride"], p["padding"], count_include_pad=p["count_padding"]), SUMS,
        weight=2, grows=True, least=True),
    Row("resize_nearest", draw_resize(False, False), nearest, EXACT, grows=True, least=True),
    Row("resize_bilinear", draw_resize(False, True), bilinear, PLACES, grows=True, least=True, free=beside_infinite),
    Row("upsample_nearest", draw_resize(True, False), nearest, EXACT, grows=True, least=True),
    Row("upsample_bilinear", draw_resize(True, True), bilinear, PLACES, grows=True, least=True, free=beside_infinite),
    Row("batch_norm", draw_batch_norm, batch_norm, SUMS),
    Row("group_norm", draw_group_norm, group_norm, SUMS, weight=2, least=True),
]
