-- A store of the first shape, as the version that had it wrote it: one conversation and one pin.
PRAGMA application_id = 1935896437;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE records (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT,
            space TEXT NOT NULL,
            key TEXT NOT NULL,
            version INTEGER NOT NULL,
            text TEXT NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            UNIQUE (space, key)
        );
INSERT INTO "records" VALUES(3,'sessions','user-42',3,'{"id":"user-42","known":{"crm":16},"loaded":["merge_deal","find_note","create_lead"],"roster":"crm: create_lead, find_lead, merge_lead, drop_lead, create_deal, find_deal, merge_deal, drop_deal, create_note, find_note, merge_note, drop_note, create_call, find_call, merge_call, drop_call","schema":1,"searches":["select:merge_deal","select:find_note,create_lead"],"sections":{"view":"{\"direct\":false,\"follows\":false,\"groups\":[],\"mechanism\":\"\",\"metatools_at\":0,\"scanned\":\"006dab653f9af0a4921e4f24f9ce78c5\",\"seen\":\"006dab653f9af0a4921e4f24f9ce78c5\",\"shown\":[{\"came\":\"loaded\",\"tool\":{\"description\":\"Merge a deal.\",\"name\":\"merge_deal\",\"parameters\":\"{\\\"type\\\":\\\"object\\\",\\\"properties\\\":{\\\"id\\\":{\\\"type\\\":\\\"string\\\"}},\\\"required\\\":[\\\"id\\\"]}\",\"server\":\"crm\"}},{\"came\":\"loaded\",\"tool\":{\"description\":\"Find a note.\",\"name\":\"find_note\",\"parameters\":\"{\\\"type\\\":\\\"object\\\",\\\"properties\\\":{\\\"id\\\":{\\\"type\\\":\\\"string\\\"}},\\\"required\\\":[\\\"id\\\"]}\",\"server\":\"crm\"}},{\"came\":\"loaded\",\"tool\":{\"description\":\"Create a lead.\",\"name\":\"create_lead\",\"parameters\":\"{\\\"type\\\":\\\"object\\\",\\\"properties\\\":{\\\"id\\\":{\\\"type\\\":\\\"string\\\"}},\\\"required\\\":[\\\"id\\\"]}\",\"server\":\"crm\"}}],\"surface\":\"load\"}"},"uses":[]}',1790000000.0,1790000000.0);
INSERT INTO "records" VALUES(5,'pins','crm',2,'{"hash":"żółw 2"}',1790000000.0,1790000000.0);
CREATE INDEX records_by_age ON records (space, updated);
COMMIT;
