// SPDX-License-Identifier: Apache-2.0
//! Abbreviations of time zones: those of PostgreSQL's set `Default`.
//!
//! Most stand for one offset all year, whatever clocks show (`EST`, `CEST`). Those of regions whose clocks have had several offsets under one
//! name (`MSK`) stand for what the region had at the time.

use chrono_tz::Tz;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Minutes east of Greenwich; `+dst` behind them if clocks show that in summer only.
const FIXED: &str = "
    ACDT=630+dst ACSST=630+dst ACST=570 ACT=-300 ACWST=525 ADT=-180+dst AEDT=660+dst AESST=660+dst
    AEST=600 AFT=270 AKDT=-480+dst AKST=-540 ALMST=420+dst ALMT=360 AMT=-240 AST=-240 AWSST=540+dst
    AWST=480 AZOST=0+dst AZOT=-60 BDST=120+dst BDT=360 BNT=480 BORT=480 BOT=-240 BRA=-180 BRST=-120+dst
    BRT=-180 BST=60+dst BTT=360 CADT=630+dst CAST=570 CCT=480 CDT=-300+dst CEST=120+dst CET=60
    CETDST=120+dst CHADT=825+dst CHAST=765 CHUT=600 CLST=-180+dst COT=-300 CST=-360 CXT=420 DDUT=600
    EAT=180 EDT=-240+dst EEST=180+dst EET=120 EETDST=180+dst EGST=0+dst EGT=-60 EST=-300 FET=180
    FJST=780+dst FJT=720 FNST=-60+dst FNT=-120 GALT=-360 GAMT=-540 GFT=-180 GILT=720 GMT=0 HKT=480
    HST=-600 ICT=420 IDT=180+dst IRT=210 IST=120 JAYT=540 JST=540 KDT=600+dst KGST=360+dst KST=540
    LHST=630 LIGT=600 MART=-570 MDT=-360+dst MEST=120+dst MESZ=120+dst MET=60 METDST=120+dst MEZ=60
    MHT=720 MMT=390 MPT=600 MSD=240+dst MST=-420 MUST=300+dst MUT=240 MVT=300 MYT=480 NDT=-150+dst
    NFT=-210 NPT=345 NST=-210 NZDT=780+dst NZST=720 NZT=720 PDT=-420+dst PET=-300 PGT=600 PHT=480
    PKST=360+dst PKT=300 PMDT=-120+dst PMST=-180 PONT=660 PST=-480 PWT=540 PYST=-180+dst RET=240
    SADT=630+dst SAST=120 SCT=240 TAHT=-600 TFT=300 TJT=300 TOT=780 TRUT=600 TVT=720 UCT=0 ULAST=540+dst
    UT=0 UTC=0 UYST=-120+dst UYT=-180 UZST=360+dst UZT=300 VUT=660 WADT=480+dst WAKT=720 WAST=420 WAT=60
    WDT=540+dst WET=0 WETDST=60+dst WFT=720 WGST=-120+dst WGT=-180 XJT=360 YAPT=600 YEKST=360+dst Z=0
    ZULU=0
";

/// Regions of the IANA database.
const REGIONAL: &str = "
    AMST=Asia/Yerevan ANAST=Asia/Anadyr ANAT=Asia/Anadyr ARST=America/Argentina/Buenos_Aires
    ART=America/Argentina/Buenos_Aires AZST=Asia/Baku AZT=Asia/Baku CKT=Pacific/Rarotonga
    CLT=America/Santiago DAVT=Antarctica/Davis EASST=Pacific/Easter EAST=Pacific/Easter
    FKST=Atlantic/Stanley FKT=Atlantic/Stanley GEST=Asia/Tbilisi GET=Asia/Tbilisi GYT=America/Guyana
    IOT=Indian/Chagos IRKST=Asia/Irkutsk IRKT=Asia/Irkutsk KGT=Asia/Bishkek KOST=Pacific/Kosrae
    KRAST=Asia/Krasnoyarsk KRAT=Asia/Krasnoyarsk LHDT=Australia/Lord_Howe LINT=Pacific/Kiritimati
    LKT=Asia/Colombo MAGST=Asia/Magadan MAGT=Asia/Magadan MAWT=Antarctica/Mawson MSK=Europe/Moscow
    NOVST=Asia/Novosibirsk NOVT=Asia/Novosibirsk NUT=Pacific/Niue OMSST=Asia/Omsk OMST=Asia/Omsk
    PETST=Asia/Kamchatka PETT=Asia/Kamchatka PYT=America/Asuncion SGT=Asia/Singapore TKT=Pacific/Fakaofo
    TMT=Asia/Ashgabat ULAT=Asia/Ulaanbaatar VET=America/Caracas VLAST=Asia/Vladivostok
    VLAT=Asia/Vladivostok VOLT=Europe/Volgograd YAKST=Asia/Yakutsk YAKT=Asia/Yakutsk
    YEKT=Asia/Yekaterinburg
";

/// What an abbreviation stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Minutes east of Greenwich, and whether clocks show them in summer only.
    Fixed { minutes: i64, is_dst: bool },
    /// What clocks of a region show.
    Region(Tz),
}

static MEANINGS: LazyLock<HashMap<&'static str, Meaning>> = LazyLock::new(|| {
    let pairs = |text: &'static str| text.split_whitespace().filter_map(|pair| pair.split_once('='));
    let fixed = pairs(FIXED).filter_map(|(name, minutes)| {
        let summer = minutes.strip_suffix("+dst");
        let minutes = summer.unwrap_or(minutes).parse().ok()?;
        Some((name, Meaning::Fixed { minutes, is_dst: summer.is_some() }))
    });
    let regional =
        pairs(REGIONAL).filter_map(|(name, zone)| Some((name, Meaning::Region(zone.parse().ok()?))));
    fixed.chain(regional).collect()
});

/// An abbreviation in capitals with its meaning; letters count alike, small and large.
pub(super) fn meaning_of(abbreviation: &str) -> Option<(&'static str, Meaning)> {
    let name = abbreviation.to_ascii_uppercase();
    MEANINGS.get_key_value(name.as_str()).map(|(name, meaning)| (*name, *meaning))
}

/// All of them.
pub(crate) fn abbreviations() -> impl Iterator<Item = (&'static str, Meaning)> {
    MEANINGS.iter().map(|(name, meaning)| (*name, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_abbreviation_has_a_meaning() {
        let count = |text: &str| text.split_whitespace().count();
        assert_eq!(MEANINGS.len(), count(FIXED) + count(REGIONAL));
        let summer = Meaning::Fixed { minutes: 120, is_dst: true };
        assert_eq!(meaning_of("cest"), Some(("CEST", summer)));
        assert_eq!(meaning_of("msk"), Some(("MSK", Meaning::Region(Tz::Europe__Moscow))));
        assert_eq!(meaning_of("nowhere"), None);
    }
}
