"""Audio for tests of models that hear."""
import wave

import numpy as np

RATE = 16000


def write_tones(path, n, seed, tones):
    """Writes n samples of tones that come and go, and noise, as a WAV file of 16 bits. `tones` are pairs of frequencies in Hz: of
    a tone, and of its loudness. Returns the samples as floats."""
    t = np.arange(n) / RATE
    rng = np.random.default_rng(seed)
    mixed = sum(np.sin(2 * np.pi * hz * t + hz) * np.maximum(np.sin(2 * np.pi * swell * t), 0) for hz, swell in tones)
    samples = np.round((0.15 * mixed + 0.02 * rng.standard_normal(n)) * 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return samples.astype(np.float32) / 32768.0
