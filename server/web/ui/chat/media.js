// Images and audio as the server takes them. The server reads PNG and JPEG, and WAV, MP3, FLAC, Ogg, Opus and AIFF; other formats that
// the browser can decode are converted here.
//
//   media file {name, kind: 'image' | 'audio', format, id, n_bytes}; its bytes are a data: URL, which the store keeps by the id.

const kMaxSource = 64 * 1024 * 1024;  // Of a file that is read at all.
const kMaxSide = 2048;  // Pixels; models see fewer.
const kMaxImage = 3 * 1024 * 1024;
const kMaxAudio = 8 * 1024 * 1024;
const kSampleRate = 16000;
const kMegabyte = 1024 * 1024;

export function bytes_text(n) {
  return n < 1024 ? `${n} B` : n < kMegabyte ? `${Math.round(n / 1024)} KB` : `${(n / kMegabyte).toFixed(1)} MB`;
}

const kExtensions = {
  image: /\.(png|jpe?g|webp|gif|bmp|avif|heic|heif|tiff?|ico)$/i,
  audio: /\.(wav|mp3|flac|og[ga]|opus|aiff?|m4a|aac|weba)$/i,
  video: /\.(mp4|mov|mkv|avi|webm)$/i,
};

/** 'image', 'audio', 'video', or null for what may be text. Some systems give no type, so names count as well. */
export function media_kind({type, name}) {
  if (type === 'image/svg+xml') return null;  // SVG is text.
  const kind = /^(image|audio|video)\//.exec(type)?.[1];
  return kind ?? (type ? null : Object.keys(kExtensions).find((key) => kExtensions[key].test(name)) ?? null);
}

/** The media file of a File, without an id and with its bytes as `url`. Throws Error that says what to do. */
export async function read_media(file, kind) {
  if (file.size > kMaxSource) throw new Error(`${file.name} has ${Math.ceil(file.size / kMegabyte)} MB; at most ${kMaxSource / kMegabyte} MB are read.`);
  const {format, blob} = kind === 'image' ? await image_of(file) : await audio_of(file);
  const url = await data_url(new Blob([blob], {type: `${kind}/${format}`}));
  return {name: file.name, kind, format, n_bytes: blob.size, url};
}

/** Whether a text is a data: URL of media as read_media makes them: no other URL may become the source of an element. */
export function is_media_url(url, kind) {
  return typeof url === 'string' && new RegExp(`^data:${kind}/[a-z0-9]+;base64,[A-Za-z0-9+/]+=*$`).test(url) && !url.startsWith('data:image/svg');
}

function data_url(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

const starts_with = (bytes, text, at = 0) => [...text].every((letter, i) => bytes[at + i] === letter.charCodeAt(0));

async function first_bytes(file) {
  return new Uint8Array(await file.slice(0, 64).arrayBuffer());
}

async function image_of(file) {
  const bytes = await first_bytes(file);
  const format = starts_with(bytes, '\x89PNG') ? 'png' : starts_with(bytes, '\xff\xd8\xff') ? 'jpeg' : null;
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is not an image that this browser can read; convert it to PNG or JPEG.`);
  }
  const {width, height} = bitmap;
  const scale = Math.min(1, kMaxSide / Math.max(width, height));
  if (format && scale === 1 && file.size <= kMaxImage) return {format, blob: file};
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext('2d');
  const draw = () => context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const encode = (type) => new Promise((resolve) => { canvas.toBlob(resolve, type, 0.9); });
  draw();
  if (format !== 'jpeg') {
    const blob = await encode('image/png');
    if (blob && blob.size <= kMaxImage) return {format: 'png', blob};
  }
  context.fillStyle = '#fff';  // JPEG has no transparency.
  context.fillRect(0, 0, canvas.width, canvas.height);
  draw();
  const blob = await encode('image/jpeg');
  if (!blob || blob.size > kMaxImage) throw new Error(`${file.name} is too large for a message; make it smaller.`);
  return {format: 'jpeg', blob};
}

function audio_format(bytes) {
  if (starts_with(bytes, 'RIFF') && starts_with(bytes, 'WAVE', 8)) return 'wav';
  if (starts_with(bytes, 'fLaC')) return 'flac';
  if (starts_with(bytes, 'OggS')) return starts_with(bytes, 'OpusHead', 28) ? 'opus' : 'ogg';
  if (starts_with(bytes, 'FORM') && starts_with(bytes, 'AIF', 8)) return 'aiff';
  return starts_with(bytes, 'ID3') || (bytes[0] === 0xff && (bytes[1] & 0xe6) === 0xe2) ? 'mp3' : null;  // MPEG layer 3.
}

async function audio_of(file) {
  const format = audio_format(await first_bytes(file));
  if (format && file.size <= kMaxAudio) return {format, blob: file};
  let sound;
  try {
    sound = await new OfflineAudioContext(1, 1, kSampleRate).decodeAudioData(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not audio that this browser can read; convert it to WAV or MP3.`);
  }
  const blob = wav_of(sound);
  if (blob.size > kMaxAudio) throw new Error(`${file.name} lasts ${Math.ceil(sound.duration / 60)} minutes; the limit is ${Math.floor(kMaxAudio / 2 / kSampleRate / 60)}. Shorten it.`);
  return {format: 'wav', blob};
}

/** One channel of 16 bits. */
function wav_of(sound) {
  const mixed = new Float32Array(sound.length);
  for (let c = 0; c < sound.numberOfChannels; ++c) {
    const channel = sound.getChannelData(c);
    for (let i = 0; i < mixed.length; ++i) mixed[i] += channel[i] / sound.numberOfChannels;
  }
  const view = new DataView(new ArrayBuffer(44 + 2 * mixed.length));
  const text = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, 'RIFF');
  view.setUint32(4, 36 + 2 * mixed.length, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sound.sampleRate, true);
  view.setUint32(28, 2 * sound.sampleRate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, 'data');
  view.setUint32(40, 2 * mixed.length, true);
  mixed.forEach((value, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, value)) * 32767, true));
  return new Blob([view]);
}
