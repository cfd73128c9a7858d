// The languages of the highlighter. A row has these fields:
//   names: the first one is shown
//   line: the beginning of a comment to the line's end
//   block: [from, to] of a longer comment
//   strings: delimiters; a delimiter of three characters, and `, may span lines
//   words: keywords
//   more: literals and built-in names
// Further flags are for peculiarities of a language.

const kC = 'auto break case const continue default do else enum extern for goto if inline register restrict return sizeof static struct switch typedef union volatile while';
const kCTypes = 'void bool char short int long float double signed unsigned size_t ssize_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t true false NULL nullptr';
const kJs = 'async await break case catch class const continue debugger default delete do else export extends finally for from function get if import in instanceof let new of return set static super switch this throw try typeof var void while with yield';
const kJsMore = 'true false null undefined NaN Infinity console document window Math JSON Object Array String Number Boolean Promise Map Set Error';

const kRows = [
  {names: ['Python', 'py', 'python3', 'ipython'], line: '#', strings: ['"""', "'''", '"', "'"], decorators: true,
   words: 'and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield',
   more: 'True False None self cls print len range int str float list dict set tuple bool bytes super type isinstance enumerate zip map filter sorted sum min max open abs any all'},
  {names: ['JavaScript', 'js', 'mjs', 'cjs', 'jsx', 'node'], line: '//', block: ['/*', '*/'], strings: ['`', '"', "'"], words: kJs, more: kJsMore},
  {names: ['TypeScript', 'ts', 'tsx'], line: '//', block: ['/*', '*/'], strings: ['`', '"', "'"], decorators: true,
   words: `${kJs} abstract as declare enum implements infer interface is keyof namespace private protected public readonly satisfies type`,
   more: `${kJsMore} string number boolean any unknown never object void`},
  {names: ['JSON', 'jsonc', 'json5', 'jsonl'], line: '//', block: ['/*', '*/'], strings: ['"'], words: '', more: 'true false null', keys: /"(?:[^"\\]|\\.)*"(?=\s*:)/y},
  {names: ['C', 'h'], line: '//', block: ['/*', '*/'], strings: ['"', "'"], preprocessor: true, words: kC, more: kCTypes},
  {names: ['C++', 'cpp', 'cc', 'cxx', 'hpp', 'arduino'], line: '//', block: ['/*', '*/'], strings: ['"', "'"], preprocessor: true,
   words: `${kC} alignas catch class co_await co_return co_yield concept consteval constexpr constinit decltype delete explicit export final friend mutable namespace new noexcept operator override private protected public requires static_assert static_cast dynamic_cast reinterpret_cast const_cast template this throw try typename using virtual`,
   more: `${kCTypes} std string string_view vector map unordered_map span optional unique_ptr shared_ptr array pair tuple`},
  {names: ['CUDA', 'cu', 'opencl', 'glsl', 'hlsl', 'wgsl', 'metal'], line: '//', block: ['/*', '*/'], strings: ['"', "'"], preprocessor: true,
   words: `${kC} template typename __global__ __device__ __shared__ __host__ kernel layout in out uniform buffer`, more: `${kCTypes} vec2 vec3 vec4 mat3 mat4 half float4 uint`},
  {names: ['C#', 'cs', 'csharp'], line: '//', block: ['/*', '*/'], strings: ['"', "'"],
   words: 'abstract as async await base break case catch class const continue default delegate do else enum event explicit extern finally fixed for foreach get if implicit in init interface internal is lock namespace new operator out override params private protected public readonly record ref return sealed set sizeof stackalloc static struct switch this throw try typeof unchecked unsafe using var virtual where while with yield',
   more: 'bool byte char decimal double float int long object short string uint ulong void true false null'},
  {names: ['Java'], line: '//', block: ['/*', '*/'], strings: ['"""', '"', "'"], decorators: true,
   words: 'abstract assert break case catch class const continue default do else enum extends final finally for if implements import instanceof interface native new package permits private protected public record return sealed static strictfp super switch synchronized this throw throws transient try var volatile while yield',
   more: 'boolean byte char double float int long short void true false null String Integer List Map Object System'},
  {names: ['Kotlin', 'kt', 'kts'], line: '//', block: ['/*', '*/'], strings: ['"""', '"', "'"], decorators: true,
   words: 'abstract as break by catch class companion const constructor continue data do else enum finally for fun if import in init inline interface internal is lateinit object open operator out override package private protected public return sealed super suspend this throw try typealias val var when where while',
   more: 'true false null Int Long String Boolean Double Float Unit Any List Map'},
  {names: ['Swift'], line: '//', block: ['/*', '*/'], strings: ['"""', '"'], decorators: true,
   words: 'actor as associatedtype async await break case catch class continue default defer do else enum extension fallthrough fileprivate for func guard if import in init inout internal is let mutating nil open override private protocol public repeat required rethrows return self Self some static struct subscript super switch throw throws try typealias var where while',
   more: 'true false nil Int String Bool Double Float Array Dictionary Optional'},
  {names: ['Go', 'golang'], line: '//', block: ['/*', '*/'], strings: ['`', '"', "'"],
   words: 'break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var',
   more: 'bool byte complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 any true false nil iota append cap close copy delete len make new panic print println recover'},
  {names: ['Rust', 'rs'], line: '//', block: ['/*', '*/'], strings: ['"'], lifetimes: true, decorators: true,
   words: 'as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait type unsafe use where while',
   more: 'bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize true false Some None Ok Err Option Result String Vec Box println format vec'},
  {names: ['Zig'], line: '//', strings: ['"', "'"], words: 'align and anyframe asm async await break catch comptime const continue defer else enum errdefer error export extern fn for if inline noalias or orelse packed pub resume return struct suspend switch test threadlocal try union unreachable usingnamespace var volatile while', more: 'true false null undefined void bool u8 u16 u32 u64 usize i32 i64 f32 f64'},
  {names: ['PHP'], line: ['//', '#'], block: ['/*', '*/'], strings: ['"', "'"], sigils: '$',
   words: 'abstract and array as break case catch class clone const continue declare default do echo else elseif enum extends final finally fn for foreach function global if implements include instanceof interface match namespace new or print private protected public readonly require require_once return static switch throw trait try use var while yield',
   more: 'true false null int string bool float void mixed self'},
  {names: ['Ruby', 'rb'], line: '#', strings: ['"', "'"], sigils: '@:',
   words: 'alias and begin break case class def defined do else elsif end ensure for if in include module next not or raise redo require rescue retry return self super then undef unless until when while yield',
   more: 'true false nil puts attr_accessor attr_reader private'},
  {names: ['Lua'], line: '--', block: ['--[[', ']]'], strings: ['"', "'"], words: 'and break do else elseif end for function goto if in local not or repeat return then until while', more: 'true false nil print pairs ipairs require self string table math'},
  {names: ['Perl', 'pl'], line: '#', strings: ['"', "'"], sigils: '$@%', words: 'my our local sub if elsif else unless while until for foreach return use package require last next die print say', more: 'undef'},
  {names: ['R'], line: '#', strings: ['"', "'"], words: 'if else for while repeat function break next return in library', more: 'TRUE FALSE NULL NA Inf NaN c list data.frame'},
  {names: ['Julia', 'jl'], line: '#', block: ['#=', '=#'], strings: ['"""', '"'], words: 'abstract baremodule begin break catch const continue do else elseif end export finally for function global if import in let local macro module mutable primitive quote return struct try type using where while', more: 'true false nothing Int Float64 String'},
  {names: ['Haskell', 'hs'], line: '--', block: ['{-', '-}'], strings: ['"'], words: 'case class data default deriving do else foreign if import in infix infixl infixr instance let module newtype of then type where', more: 'True False Just Nothing Int Integer String Maybe IO'},
  {names: ['Scala'], line: '//', block: ['/*', '*/'], strings: ['"""', '"'], words: 'abstract case catch class def do else enum extends final finally for given if implicit import lazy match new object override package private protected return sealed super this throw trait try type val var while with yield', more: 'true false null Int String Boolean List Map Option Some None'},
  {names: ['Shell', 'bash', 'sh', 'zsh', 'console', 'shell', 'shell-session', 'fish'], line: '#', strings: ['"', "'"], sigils: '$', spaced_comment: true,
   words: 'if then else elif fi for in do done while until case esac function return break continue local export readonly set unset source trap exit',
   more: 'cd echo printf read test ls cat grep sed awk find xargs curl wget git docker sudo apt pip npm make cmake mkdir rm cp mv chmod chown ssh tar kill sleep python python3 node'},
  {names: ['PowerShell', 'ps1', 'pwsh'], line: '#', block: ['<#', '#>'], strings: ['"', "'"], sigils: '$', words: 'begin break catch continue do else elseif end exit filter finally for foreach function if in param process return switch throw trap try until while', more: ''},
  {names: ['Dockerfile', 'docker'], line: '#', strings: ['"', "'"], sigils: '$', words: 'FROM AS RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL HEALTHCHECK SHELL', more: ''},
  {names: ['Makefile', 'make', 'mk'], line: '#', strings: ['"', "'"], sigils: '$', words: 'ifeq ifneq ifdef ifndef else endif include define endef export override', more: ''},
  {names: ['CMake'], line: '#', strings: ['"'], sigils: '$', words: 'if else elseif endif foreach endforeach while endwhile function endfunction macro endmacro set project add_executable add_library target_link_libraries target_include_directories find_package include return', more: 'PUBLIC PRIVATE INTERFACE REQUIRED ON OFF TRUE FALSE'},
  {names: ['SQL', 'mysql', 'postgresql', 'postgres', 'sqlite', 'plsql'], line: '--', block: ['/*', '*/'], strings: ["'", '"'], any_case: true,
   words: 'select from where and or not in is like between exists insert into values update set delete create table view index drop alter add column primary key foreign references unique constraint default check join inner left right full outer cross on using group by order having limit offset union all distinct as case when then else end with recursive returning begin commit rollback transaction grant revoke if over partition window asc desc',
   more: 'null true false int integer bigint smallint serial text varchar char boolean date time timestamp numeric decimal real float double count sum avg min max coalesce now'},
  {names: ['YAML', 'yml'], line: '#', strings: ['"', "'"], spaced_comment: true, words: '', more: 'true false null yes no on off', keys: /[\w.$/-]+(?=\s*:(?:\s|$))/y},
  {names: ['TOML', 'ini', 'cfg', 'conf', 'properties', 'env'], line: ['#', ';'], strings: ['"""', '"', "'"], spaced_comment: true, words: '', more: 'true false', keys: /[\w.-]+(?=\s*=)|\[[^\]\n]{1,200}\]/y},
  {names: ['CSS', 'scss', 'less'], line: '', block: ['/*', '*/'], strings: ['"', "'"], words: '', more: 'important inherit initial unset none auto', keys: /--?[\w-]+|[a-z-]+(?=\s*:)|@[\w-]+/y, css: true},
  {names: ['HTML', 'xml', 'svg', 'xhtml', 'vue', 'svelte', 'plist', 'markup'], line: '', block: ['<!--', '-->'], strings: [], markup: true, words: '', more: ''},
  {names: ['Diff', 'patch'], diff: true, line: '', strings: [], words: '', more: ''},
  {names: ['LaTeX', 'tex'], line: '%', strings: [], words: '', more: '', keys: /\\(?:[a-zA-Z]+|.)/y},
  {names: ['GraphQL', 'gql'], line: '#', strings: ['"""', '"'], words: 'query mutation subscription fragment on type input interface union enum scalar schema extend implements directive', more: 'Int Float String Boolean ID true false null', sigils: '$@'},
  {names: ['Protobuf', 'proto'], line: '//', block: ['/*', '*/'], strings: ['"'], words: 'syntax package import message enum service rpc returns option repeated optional required oneof map reserved extend', more: 'int32 int64 uint32 uint64 bool string bytes float double true false'},
  {names: ['Assembly', 'asm', 'nasm', 's'], line: [';', '#'], strings: ['"', "'"], words: 'section global extern db dw dd dq equ mov add sub mul div push pop call ret jmp je jne jz jnz cmp test lea xor and or', more: 'rax rbx rcx rdx rsi rdi rsp rbp eax ebx ecx edx xmm0 ymm0 zmm0'},
];

const by_name = new Map();
for (const row of kRows) {
  const words = (text) => new Set(text.split(' ').filter(Boolean));
  const language = {...row, line: [row.line].flat().filter(Boolean), words: words(row.words), more: words(row.more)};
  for (const name of row.names) by_name.set(name.toLowerCase(), language);
}

/** The row for the name after a fence, or null. */
export function find_language(name) {
  return by_name.get(name.toLowerCase()) ?? null;
}
