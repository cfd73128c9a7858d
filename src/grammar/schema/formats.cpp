#include "grammar/schema/formats.h"

namespace weft::grammar {
namespace {

// Days that exist: of months with 31 and 30 days, of February, and its last day of leap years.
constexpr std::string_view kDate =
    R"(((000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|)"
    R"((0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|)"
    R"((\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29))";
constexpr std::string_view kTime =
    R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
constexpr std::string_view kDateTime =
    R"(((000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|)"
    R"((0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|)"
    R"((\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)T)"
    R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
constexpr std::string_view kDuration =
    R"(P(\d+W|(\d+Y(\d+M)?(\d+D)?|\d+M(\d+D)?|\d+D)(T(\d+H(\d+M)?(\d+S)?|\d+M(\d+S)?|\d+S))?|)"
    R"(T(\d+H(\d+M)?(\d+S)?|\d+M(\d+S)?|\d+S)))";
constexpr std::string_view kIpv4 =
    R"(((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
constexpr std::string_view kIpv6 =
    R"((([\da-fA-F]{1,4}:){7}[\da-fA-F]{1,4}|([\da-fA-F]{1,4}:){1,7}:|)"
    R"(([\da-fA-F]{1,4}:){1,6}:[\da-fA-F]{1,4}|([\da-fA-F]{1,4}:){1,5}(:[\da-fA-F]{1,4}){1,2}|)"
    R"(([\da-fA-F]{1,4}:){1,4}(:[\da-fA-F]{1,4}){1,3}|([\da-fA-F]{1,4}:){1,3}(:[\da-fA-F]{1,4}){1,4}|)"
    R"(([\da-fA-F]{1,4}:){1,2}(:[\da-fA-F]{1,4}){1,5}|[\da-fA-F]{1,4}:(:[\da-fA-F]{1,4}){1,6}|)"
    R"(:((:[\da-fA-F]{1,4}){1,7}|:)))";
constexpr std::string_view kHostname =
    R"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*)";
constexpr std::string_view kEmail =
    R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@)"
    R"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+)";
constexpr std::string_view kUri =
    R"([A-Za-z][A-Za-z0-9+.-]*:)"
    R"((//(([A-Za-z0-9._~!$&'()*+,;=:-]|%[\dA-Fa-f]{2})*@)?)"
    R"(([A-Za-z0-9._~!$&'()*+,;=-]|%[\dA-Fa-f]{2})+(:\d{1,5})?)"
    R"((/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[\dA-Fa-f]{2})*)*|)"
    R"(([A-Za-z0-9._~!$&'()*+,;=:@-]|%[\dA-Fa-f]{2})+(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[\dA-Fa-f]{2})*)*))"
    R"((\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[\dA-Fa-f]{2})*)?(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[\dA-Fa-f]{2})*)?)";

constexpr StringFormat kFormats[] = {
    {"date", kDate},
    {"time", kTime},
    {"date-time", kDateTime},
    {"duration", kDuration},
    {"uuid", R"([\da-fA-F]{8}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{12})"},
    {"ipv4", kIpv4},
    {"ipv6", kIpv6},
    {"hostname", kHostname, 253},
    {"email", kEmail},
    {"uri", kUri},
    {"idn-email", {}},
    {"idn-hostname", {}},
    {"iri", {}},
    {"iri-reference", {}},
    {"json-pointer", {}},
    {"regex", {}},
    {"relative-json-pointer", {}},
    {"uri-reference", {}},
    {"uri-template", {}},
};

}  // namespace

const StringFormat* find_format(std::string_view name) {
  for (const StringFormat& format : kFormats)
    if (format.name == name) return &format;
  return nullptr;
}

}  // namespace weft::grammar
